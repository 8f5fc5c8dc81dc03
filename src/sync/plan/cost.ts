/**
 * A stated estimate of what each way to a version costs, to choose between two that are both right. Its unit is the
 * work that one row of a snapshot is: about two microseconds. Pure.
 */

import type { ManifestEntry } from '../../model/manifest.ts';
import type { Version } from '../../model/version.ts';

/** A request: some 20 ms to and fro, with several under way at once. */
export const REQUEST_IN_ROWS = 1_000;
/** A row of changes travels as text, is decoded, checked, folded, and found in the table by its key. */
export const CHANGED_ROW_IN_ROWS = 10;
/** What a snapshot costs before its first row: its files are examined, a new table is written and swapped for the old one. */
export const SNAPSHOT_IN_ROWS = 10_000;
/** Rows on a full page of changes; also what a version is taken to list that does not say how many. */
export const ROWS_PER_PAGE = 1_000;

/** Rows that the changes of a version list. */
export function listedRows({ counts }: Version): number {
  return counts === null ? ROWS_PER_PAGE : counts.added + counts.changed + counts.removed;
}

export function changesCost(versions: readonly Version[]): number {
  return versions.reduce((sum, version) => {
    const rows = listedRows(version);
    const pages = Math.max(1, Math.ceil(rows / ROWS_PER_PAGE));
    return sum + pages * REQUEST_IN_ROWS + rows * CHANGED_ROW_IN_ROWS;
  }, 0);
}

/** Of a snapshot of so many rows, before its entry was read: one file, if not more. */
export function leastSnapshotCost(rows: number): number {
  return SNAPSHOT_IN_ROWS + REQUEST_IN_ROWS + rows;
}

/** `otherwiseRows`: what the snapshot is taken to have where its entry does not say. */
export function snapshotCost({ rowCount, files }: ManifestEntry, otherwiseRows: number): number {
  return SNAPSHOT_IN_ROWS + files.length * REQUEST_IN_ROWS + (rowCount ?? otherwiseRows);
}
