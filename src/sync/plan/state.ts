/** Where a dataset is in its life. A state carries only its own fields. */

import type { Failure, Hold } from '../../checkpoint/checkpoint.ts';
import type { HeldDataset } from '../../destination/destination.ts';
import type { Want } from '../../model/want.ts';

export type DatasetState =
  /** Wanted, and there is no table yet. */
  | { readonly kind: 'absent' }
  /** A table serves. */
  | { readonly kind: 'live'; readonly held: HeldDataset }
  /** The last attempt failed; the table, if there is one, serves. */
  | { readonly kind: 'failed'; readonly failure: Failure; readonly held: HeldDataset | null }
  /** The service refused; a person has to act. The table, if there is one, serves. */
  | { readonly kind: 'held'; readonly hold: Hold; readonly held: HeldDataset | null }
  /** No subscription holds it any more. */
  | { readonly kind: 'retired'; readonly held: HeldDataset | null };

export type DatasetStateKind = DatasetState['kind'];

/** What is known of a dataset, from both stores. */
export interface Known {
  readonly want: Want;
  readonly held: HeldDataset | null;
  readonly hold: Hold | null;
  readonly failure: Failure | null;
}

export function stateOf({ want, held, hold, failure }: Known): DatasetState {
  if (want.members.size === 0) return { kind: 'retired', held };
  if (hold !== null) return { kind: 'held', hold, held };
  if (failure !== null) return { kind: 'failed', failure, held };
  return held === null ? { kind: 'absent' } : { kind: 'live', held };
}
