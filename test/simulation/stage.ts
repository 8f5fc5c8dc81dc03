/**
 * What a history is played on: a feed, and an installation that mirrors it. The steps and the rules are the same on both
 * stages: on the real one everything is as in production, on the model one all ports are in memory and time is virtual.
 */

import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { DatasetVersion } from '../../fixtures/feed/model.ts';
import type { Operation } from '../../fixtures/feed/operations.ts';
import type { ContentComparison } from '../../src/destination/comparer.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { ObservedTable, VersionContent } from '../../src/model/write-jobs.ts';
import type { Parts } from '../../src/sync/parts.ts';
import type { Kind as DamageKind } from '../faults/fault.ts';
import type { Lines } from '../support/mirror-commits.ts';
import type { Expectation } from '../support/published.ts';
import type { Seen } from '../support/table-digest.ts';
import type { Settings } from './settings.ts';

/** The feed as the steps work on it. */
export type FeedSide = Pick<
  FixtureFeed,
  | 'baseUrl'
  | 'apiKey'
  | 'keys'
  | 'clock'
  | 'store'
  | 'publisher'
  | 'access'
  | 'manifest'
  | 'records'
  | 'omissions'
  | 'onRequest'
  | 'faults'
  | 'requests'
  | 'settings'
>;

export type Store = 'mirror' | 'checkpoint';

/** The tables of the checkpoint that say what has been read of the service, and what is to be done. */
export const CHECKPOINT_TABLES = [
  'subscriptions',
  'desired_states',
  'desired_members',
  'desired_reloads',
  'absences',
  'mentions',
  'suspensions',
  'candidates',
  'failures',
] as const;
export type CheckpointTable = (typeof CHECKPOINT_TABLES)[number];

/** Where a process dies: at the nth request of an operation, durable effect, or commit of the mirror. */
export type DeathPoint =
  | { readonly kind: 'request'; readonly operation: Operation; readonly nth: number }
  /** `name`: only effects of that name, where the stage knows names. */
  | { readonly kind: 'effect'; readonly nth: number; readonly name?: string }
  | { readonly kind: 'commit'; readonly timestamp: 'before' | 'after'; readonly nth: number };

/** What a reader of the mirror finds in it. */
export interface MirrorView {
  readonly subscriptionIds: readonly string[];
  /** By dataset id. */
  readonly seen: Readonly<Record<string, Seen>>;
  readonly lines: Lines;
  /** The datasets of the catalog whose table somebody has dropped. */
  readonly missing: readonly string[];
  /** The newest commit of each table that a rollback keeps where it is, by dataset id. */
  readonly pinned: ReadonlyMap<string, number>;
  /** What undo logs say wrongly of earlier states, but for tables that were altered by hand since. */
  wrongStates(altered: ReadonlySet<string>): Promise<readonly string[]>;
  differencesFrom(expected: Expectation): Promise<readonly string[]>;
}

export interface Installation {
  /** The parts, opened where they are closed. */
  parts(): Promise<Parts>;
  close(): Promise<void>;
  lose(store: Store): Promise<void>;
  /** Keeps a copy of the store, in the place of one kept before. */
  copy(store: Store): Promise<void>;
  hasCopy(store: Store): boolean;
  restoreCopy(store: Store): Promise<void>;
  /** From now on the table of the checkpoint has the rows that it had when the checkpoint was copied. */
  restoreTable(table: CheckpointTable): Promise<void>;
  /** Catches up in a process that dies at the point, unless it was done before; says which. */
  catchUpAndDie(at: DeathPoint): Promise<{ readonly died: boolean; readonly reported: string }>;
  /** From now on the history of tables is kept, or is not. */
  keepHistory(isKept: boolean): Promise<void>;
  /** Somebody alters a row of the table by hand; says what, or null where there is nothing to alter. */
  alter(table: ObservedTable, how: Alteration): Promise<string | null>;
  /** Somebody drops the table by hand. */
  drop(table: ObservedTable): Promise<void>;
  /** A block of the table cannot be read from now on. Only on the model stage. */
  damage(datasetId: string): void;
  /** The disk alters a file that is staged; says how, or null where none is. Only on the real stage. */
  damageStaged(kind: DamageKind, next: () => number): string | null;
  /** Somebody removes the pipe to the server, or puts something in its place. Nothing where there is none. */
  breakPipe(how: BrokenPipe): void;
  /** It is free again. */
  mendPipe(): void;
  /** As `verify --deep` compares. */
  compare(table: ObservedTable, content: VersionContent): Promise<ContentComparison>;
  /** Null where there is no mirror. */
  readMirror<T>(read: (mirror: MirrorView) => Promise<T>): Promise<T | null>;
}

export const ALTERATIONS = ['a value', 'a row less', 'a row more'] as const;
export type Alteration = (typeof ALTERATIONS)[number];

export const BROKEN_PIPES = ['removed', 'a file', 'a link'] as const;
export type BrokenPipe = (typeof BROKEN_PIPES)[number];

/** Incidents of the machine, which a real stage cannot cause at will. */
export interface Machine {
  /** So many uses of the mirror find it in use by a reader. */
  occupyMirror(times: number): void;
  /** So many writings of that kind find the disk full. */
  fillDisk(what: DiskUse, times: number): void;
  /** Somebody sets the clock of the machine. */
  setClock(byMs: number): void;
  /** All of it is over; the clock stays as it was set. */
  recover(): void;
}

/** `commit, late`: the commit is done, and the process gets an error as if it were not. */
export const DISK_USES = ['download', 'changes', 'commit', 'commit, late', 'checkpoint'] as const;
export type DiskUse = (typeof DISK_USES)[number];

/** What one commit did to the table of a dataset; null: there was none, or there is none any more. */
export interface TableChange {
  readonly datasetId: string;
  readonly before: Seen | null;
  readonly after: Seen | null;
  /** A rollback kept it where it was. */
  readonly wasPinned: boolean;
  readonly kind: 'snapshot' | 'changes' | 'retirement' | 'rollback' | 'repair';
}

export interface Stage {
  readonly name: 'model' | 'real';
  readonly feed: FeedSide;
  readonly clock: Clock;
  readonly installation: Installation;
  /** Null on a real stage. */
  readonly machine: Machine | null;
  /** `watch` is called for every commit, where the stage sees it. */
  watchCommits(watch: (change: TableChange) => void): void;
  /** The digest by which `seen` identifies the content of a version. */
  digestOf(version: DatasetVersion): string;
  close(): Promise<void>;
}

export type MakeStage = (seed: number, settings: Settings) => Promise<Stage>;
