/** Where an installation of the real stage puts its mirror, and what the steps do to it beside the program. */

import type { ContentComparison } from '../../../src/destination/comparer.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import type { ObservedTable, VersionContent } from '../../../src/model/write-jobs.ts';
import type { Program } from '../../support/program.ts';
import type { Alteration, MirrorView } from '../stage.ts';

export interface Comparing {
  /** An own folder. */
  readonly directory: string;
  /** The folder that the content was downloaded into. */
  readonly downloads: string;
  readonly clock: Clock;
}

/** While any of this is done, no process of the installation has the mirror open; but for `read` and `compare`. */
export interface RealDestination {
  /** Null where there is no mirror. */
  read<T>(read: (mirror: MirrorView) => Promise<T>): Promise<T | null>;
  /** Says what was done, without the dataset; null where there is nothing to alter. */
  alter(table: ObservedTable, how: Alteration): Promise<string | null>;
  /** Drops the table, and what depends on it. */
  drop(table: ObservedTable): Promise<void>;
  compare(table: ObservedTable, content: VersionContent, comparing: Comparing): Promise<ContentComparison>;
  lose(): Promise<void>;
  /** `close` closes what the installation has open, where a copy cannot be made beside it. */
  copy(close: () => Promise<void>): Promise<void>;
  /** In place of the mirror, which was lost. */
  restoreCopy(): Promise<void>;
  /** A process was killed that may have had it open: nothing of it works on the mirror any more. */
  settleAfterKill(): Promise<void>;
  close(): Promise<void>;
}

export interface DestinationKind {
  /** Variables of the environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** Nothing that is printed or written may contain them. */
  readonly secrets: readonly string[];
  /** Waits of this length are waits of the server's time, and not of the feed's. Null: there are none. */
  readonly serverWaitMs: number | null;
  /** `program` is installed with those variables. */
  installedBy(program: Program): RealDestination;
}

/** The mirror is a new one each time. */
export type MakeDestination = () => Promise<DestinationKind>;
