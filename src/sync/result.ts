/** How a catch-up ended, for each dataset and as a whole. */

import type { Failure, Hold } from '../checkpoint/checkpoint.ts';

export type DatasetResult = { readonly datasetId: string } & (
  | {
      readonly kind: 'loaded';
      readonly tableName: string;
      readonly fromVersion: number | null;
      readonly version: number;
      readonly rowCount: number;
      readonly bytes: number;
      readonly durationMs: number;
    }
  | { readonly kind: 'current' }
  /** The feed is not there yet; the next catch-up tries again. */
  | { readonly kind: 'waiting'; readonly why: string }
  | { readonly kind: 'held'; readonly hold: Hold }
  /** Failed now, or failed before with content that the service still offers. */
  | { readonly kind: 'failed'; readonly error: Error; readonly failure: Failure | null }
);

/** Trouble that is not a dataset's own: of a subscription, of the run as a whole. */
export interface Trouble {
  readonly subscriptionId: string | null;
  readonly error: Error;
}

export interface CatchUpResult {
  readonly subscriptions: number;
  readonly datasets: readonly DatasetResult[];
  readonly troubles: readonly Trouble[];
  /** Holds of the workspace and of subscriptions; those of datasets are in `datasets`. */
  readonly holds: readonly Hold[];
  readonly durationMs: number;
}
