/**
 * The gate of a commit: the limits that an operator sets, the counts of a commit, and what they come to. Pure.
 *
 * First loads, returns and retirements are not judged: they replace no rows that readers have.
 */

import type { RowDifference } from './commits.ts';

/** A limit of rows. Where both numbers are given, both must be exceeded. */
export interface RowLimit {
  /** A number of rows; null: any. */
  readonly rows: number | null;
  /** A share of the rows before, from 0 to 1; null: any. */
  readonly share: number | null;
}

/** The limits of a gate; null: there is no limit. */
export interface GateLimits {
  readonly removedRows: RowLimit | null;
  readonly changedRows: RowLimit | null;
  /** Whether a commit that leaves a table without rows waits. */
  readonly emptied: boolean;
}

export const NO_LIMITS: GateLimits = { removedRows: null, changedRows: null, emptied: false };

/** The effect of a commit on a table that has rows. */
export interface RowCounts {
  readonly before: number;
  readonly after: number;
  readonly added: number;
  /** Null where the rows were compared by their keys alone, or cannot be compared. */
  readonly changed: number | null;
  readonly removed: number;
  /** False where the rows have no common key: `added` and `removed` are then the difference of the row counts. */
  readonly isByKey: boolean;
}

/** The judgement of a commit. `warn`: committed, and reported. `awaiting`: an operator has to approve; `exceeded` is never empty. */
export type Judgement =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'warn' }
  | { readonly kind: 'awaiting'; readonly exceeded: readonly Exceeded[] };

/** The settings whose limits a commit exceeds. */
export type Exceeded = 'removedRows' | 'changedRows' | 'emptied';

export function judge(counts: RowCounts, limits: GateLimits): Judgement {
  const { before, after, removed, changed } = counts;
  const exceeded: readonly (readonly [Exceeded, boolean])[] = [
    ['removedRows', exceeds(removed, limits.removedRows, before)],
    ['changedRows', changed !== null && exceeds(changed, limits.changedRows, before)],
    ['emptied', limits.emptied && before > 0 && after === 0],
  ];
  const names = exceeded.flatMap(([name, isExceeded]) => (isExceeded ? [name] : []));
  if (names.length > 0) return { kind: 'awaiting', exceeded: names };
  return { kind: removesMuch(counts) ? 'warn' : 'allowed' };
}

function exceeds(count: number, limit: RowLimit | null, before: number): boolean {
  if (limit === null) return false;
  const { rows, share } = limit;
  return (rows === null || count > rows) && (share === null || exceedsShare(count, share, before));
}

/** Settings give a share in percent with at most six decimals, so that it is a whole number of these parts. */
const PARTS_OF_ALL = 100_000_000;

/** Exact: 29 of 100 rows do not exceed 29 percent, though 0.29 × 100 is less than 29 as a double. */
function exceedsShare(count: number, share: number, before: number): boolean {
  return BigInt(count) * BigInt(PARTS_OF_ALL) > BigInt(Math.round(share * PARTS_OF_ALL)) * BigInt(before);
}

/** A commit that removes more than this share of a table is reported even without a gate. */
const MUCH = 1 / 4;
/** Smaller tables lose such a share in the ordinary course of things. */
const FEWEST_ROWS_FOR_WARNING = 1_000;

function removesMuch({ before, removed }: RowCounts): boolean {
  return before >= FEWEST_ROWS_FOR_WARNING && removed > before * MUCH;
}

/** Returns whether any commit can exceed the limits. */
export function hasLimits({ removedRows, changedRows, emptied }: GateLimits): boolean {
  return removedRows !== null || changedRows !== null || emptied;
}

/** Counts the rows before and after a commit. Without a known difference only the row counts show how many rows are added and removed. */
export function rowCountsOf(before: number, after: number, net: RowDifference | null): RowCounts {
  if (net !== null) return { before, after, ...net, isByKey: true };
  const added = Math.max(0, after - before);
  const removed = Math.max(0, before - after);
  return { before, after, added, changed: null, removed, isByKey: false };
}

/** Returns whether every key is replaced by another one, as when the service numbers the rows anew. */
export function isRekeyed({ before, after, added, removed, isByKey }: RowCounts): boolean {
  return isByKey && before > 0 && after > 0 && removed === before && added === after;
}

/** A key: the texts of its columns. */
export type KeyTexts = readonly string[];

/** The most keys of each kind that an operator is shown. */
export const MAX_SHOWN_KEYS = 5;

/** Some keys of the rows that a commit would add, change and remove, the lowest first; none where the rows have no common key. */
export interface ShownKeys {
  readonly added: readonly KeyTexts[];
  readonly changed: readonly KeyTexts[];
  readonly removed: readonly KeyTexts[];
}

export const NO_KEYS: ShownKeys = { added: [], changed: [], removed: [] };

/** The effect of a commit that waits for approval. */
export interface JudgedCommit {
  /** SHA-256 in hex: of the files of a snapshot, or of the net change, however it was paged. */
  readonly digest: string;
  readonly counts: RowCounts;
  readonly keys: ShownKeys;
}

/** The limits and the approval by which a write job is judged. */
export interface Gate {
  readonly limits: GateLimits;
  /** The digest of the content that an operator approved; null: none. */
  readonly approvedDigest: string | null;
}
