/** How far changes lead a table along the chain of versions, and what stops them there. Pure. */

import type { HeldColumn } from '../destination/destination.ts';
import type { Version } from '../model/version.ts';
import type { History } from './history.ts';

/** Versions that are folded and committed at once; the next plan goes on from there. */
export const MAX_VERSIONS_AT_ONCE = 1_000;
/** Rows that the versions of one step list in all, by their counts. A version of more is a step of its own. */
export const MAX_ROWS_AT_ONCE = 2_000_000;

/** What a walk starts from: a live table (`HeldDataset` is one). */
export interface WalkStart {
  readonly version: number;
  readonly schemaVersion: string | null;
  readonly keyColumns: readonly string[];
  readonly columns: readonly Pick<HeldColumn, 'name' | 'type'>[];
}

export interface Walk {
  /** Oldest first: each version's `previousVersion` is the one before, the first's is the start's. */
  readonly path: readonly Version[];
  /** The version whose changes cannot be applied, and why, for people; null: the path leads to the head. */
  readonly stop: { readonly version: number; readonly why: string } | null;
}

/** What decides how far changes lead. */
export interface Terrain {
  readonly history: History;
  /** Versions whose changes cannot be used, with why. */
  readonly unusable: ReadonlyMap<number, string>;
  readonly schemaChanges: 'reload' | 'alter';
}

export function walk(_start: WalkStart, _terrain: Terrain): Walk {
  return { path: [], stop: null };
}

/** The newest version that was published; null where the list names none. */
export function headOf({ versions }: History): Version | null {
  return versions.reduce<Version | null>(
    (head, version) => (head === null || version.version > head.version ? version : head),
    null,
  );
}
