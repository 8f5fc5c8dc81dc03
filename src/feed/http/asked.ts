/** What is told of the exchanges with the service, for whoever counts them. */

/** Told of every exchange once its answer has begun, or failed to come. */
export type OnAsked = (asked: {
  /** For the log: `list subscriptions`. */
  readonly operation: string;
  /** Null: there was no answer. */
  readonly status: number | null;
  readonly durationMs: number;
}) => void;
