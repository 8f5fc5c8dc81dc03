/** Limits of the client that no configuration names. Each can be set by `FeedOptions.limits`, so that tests are quick. */

export interface FeedLimits {
  /** One request with a JSON answer, from the first byte sent to the last one read. */
  readonly jsonDeadlineMs: number;
  /** One request with all its repetitions. Waiting that the service asked for is not counted; it has a cap of its own. */
  readonly operationDeadlineMs: number;
  /** One file with all repetitions of its requests. */
  readonly fileDeadlineMs: number;
  /** A file that arrives more slowly than this, averaged over `slowestOverMs`, is given up and resumed. */
  readonly slowestBytesPerSecond: number;
  readonly slowestOverMs: number;
  /** Bytes of a file after which earlier failures are forgiven: a large file may outlive many cuts. */
  readonly forgivingProgressBytes: number;
  /** A file of so many bytes, or of unknown length, is read for its digest by another thread. */
  readonly digestApartFromBytes: number;
  /** So many such threads share these files. */
  readonly digestThreads: number;
  /** So many bytes more than that thread has read meanwhile are written of a file; then the service waits. */
  readonly digestLagBytes: number;
}

export const DEFAULT_LIMITS: FeedLimits = {
  jsonDeadlineMs: 5 * 60_000,
  operationDeadlineMs: 10 * 60_000,
  fileDeadlineMs: 24 * 3_600_000,
  slowestBytesPerSecond: 1_000,
  slowestOverMs: 60_000,
  forgivingProgressBytes: 1_000_000,
  digestApartFromBytes: 16_000_000,
  digestThreads: 2,
  digestLagBytes: 256_000_000,
};

/** Nesting of a JSON answer. */
export const MAX_JSON_DEPTH = 64;
/** Nesting of a page of changes, whose rows hold values of type json. */
export const MAX_CHANGES_DEPTH = 1_000;
