/**
 * The content of a model mirror: an immutable value. A commit puts another one in its place, so that it is atomic, and
 * so that a copy of the mirror is the value of that time.
 */

import { createHash } from 'node:crypto';
import type { ObservedState, StoredProgress } from '../../../src/destination/destination.ts';
import type { ObservedTable } from '../../../src/model/write-jobs.ts';
import type { Line } from '../../support/mirror-commits.ts';
import type { Seen } from '../../support/table-digest.ts';
import { digestOfTable, type Rows } from './texts.ts';
import type { NamedRows, Past } from './undo-log.ts';

export interface Table {
  readonly observed: ObservedTable;
  readonly rows: Rows;
  /** As commits left them: without what was altered by hand since. */
  readonly committed: Rows;
  /** As the catalog records it: of the rows as commits left them. */
  readonly checksum: bigint;
  /** A block of it cannot be read, or it was dropped. */
  readonly isDamaged: boolean;
  /** Somebody dropped it: only the catalog names it. */
  readonly isDropped?: true;
}

/** A line of what was retired. */
export interface Retired {
  readonly datasetId: string;
  /** Null: the rows are gone. */
  readonly tableName: string | null;
  readonly version: number;
  readonly reason: string;
  readonly archivedAt: string;
  readonly isKept: boolean;
  /** Of the table that is left. */
  readonly rowCount: number;
}

export interface MirrorState {
  readonly service: ObservedState['service'];
  /** Table names by dataset id. */
  readonly names: ReadonlyMap<string, string>;
  /** Live tables by dataset id. */
  readonly tables: ReadonlyMap<string, Table>;
  readonly retired: readonly Retired[];
  /** By dataset id, in their order. */
  readonly lines: ReadonlyMap<string, readonly Line[]>;
  readonly progress: StoredProgress | null;
  /** The number of the newest commit; 0 before the first. */
  readonly newestCommit: number;
  /** By dataset id. */
  readonly pasts: ReadonlyMap<string, Past>;
}

export const EMPTY_MIRROR: MirrorState = {
  service: null,
  names: new Map(),
  tables: new Map(),
  retired: [],
  lines: new Map(),
  progress: null,
  newestCommit: 0,
  pasts: new Map(),
};

const known = new WeakMap<Table, Seen>();

/** What a reader sees of the table. */
export function seenOf(table: Table): Seen {
  const before = known.get(table);
  if (before !== undefined) return before;
  const { observed, rows } = table;
  const names = observed.columns.map(({ name }) => name);
  const seen = { version: observed.version, digest: digestOfTable(names, rows) };
  known.set(table, seen);
  return seen;
}

export function withLine(state: MirrorState, datasetId: string, line: Line): MirrorState {
  const own = state.lines.get(datasetId) ?? [];
  const lines = new Map(state.lines).set(datasetId, [...own, line]);
  return { ...state, lines, newestCommit: Number(line.commit) };
}

export function namedRows({ observed, rows }: Table): NamedRows {
  return { names: observed.columns.map(({ name }) => name), rows };
}

/** Rows of progress: about a subscription, about a dataset, or about both. */
interface ProgressRow {
  readonly subscriptionId: string;
  readonly datasetId?: string;
}

/** The progress without some rows; null where none are left. */
export function progressWithout(
  progress: StoredProgress | null,
  isGone: (row: ProgressRow) => boolean,
): StoredProgress | null {
  if (progress === null) return null;
  const left = <Row extends ProgressRow>(rows: readonly Row[]) => rows.filter((row) => !isGone(row));
  const { subscriptions, members, owed } = progress;
  return withAnyRow({ subscriptions: left(subscriptions), members: left(members), owed: left(owed) });
}

/** Null for empty progress: a mirror does not distinguish it from none. */
export function withAnyRow(progress: StoredProgress): StoredProgress | null {
  const { subscriptions, members, owed } = progress;
  return subscriptions.length + members.length + owed.length === 0 ? null : progress;
}

export function shortDigest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
