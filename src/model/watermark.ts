/**
 * The events that a read of a manifest surely reflects: up to a number of its log where the manifest says so, else those
 * created longer before the read than a manifest may lag, in service time. Pure.
 */

import type { EventId } from './event.ts';

export type Watermark =
  | { readonly kind: 'number'; readonly through: bigint }
  | { readonly kind: 'time'; readonly through: Date };

export interface WatermarkOf {
  readonly lastEventId: EventId | null;
  /** When the manifest was read, in service time. */
  readonly readAt: Date;
  /** How long a manifest that does not say how far it goes may lag. */
  readonly manifestLagMs: number;
}

export function watermarkOf({ lastEventId, readAt, manifestLagMs }: WatermarkOf): Watermark {
  return lastEventId === null
    ? { kind: 'time', through: new Date(readAt.getTime() - manifestLagMs) }
    : { kind: 'number', through: lastEventId.number };
}

/** An event of the log, by its number and by its time: where one is not known, it is taken for long ago. */
export interface Marked {
  readonly eventNumber: bigint | null;
  readonly createdAt: Date | null;
}

export function covers(watermark: Watermark, { eventNumber, createdAt }: Marked): boolean {
  return watermark.kind === 'number'
    ? eventNumber === null || eventNumber <= watermark.through
    : createdAt === null || createdAt <= watermark.through;
}

/**
 * Service time has whole seconds. What happened at a moment that an answer tells may have happened at its end, so it is
 * taken for this much later.
 */
export const SERVICE_TIME_STEP_MS = 1_000;

/** The moment of an answer as the time of something that happened then. */
export function momentOf(readAt: Date): Date {
  return new Date(readAt.getTime() + SERVICE_TIME_STEP_MS);
}
