/** A scenario: a feed, an installation, and an act of it that can be killed at any durable effect. */

import type { CountyFeed, CountyFeedOptions } from '../support/county-feed.ts';
import type { Program, Running } from '../support/program.ts';
import type { Expectation } from '../support/published.ts';

export interface Stage {
  readonly county: CountyFeed;
  readonly installed: Program;
}

/** What is done, and killed, in the state that `prepare` has led to. */
export interface Act {
  /** The command, done again after the kill; `once` by default. */
  readonly words?: readonly string[];
  /** Variables of what is killed, and of the same undisturbed, alone. */
  readonly environment?: Readonly<Record<string, string>>;
  /** What happens at the feed each time before what is killed starts: a fault that comes once. */
  readonly before?: () => void;
  /** For what does not end by itself: resolves once it has done all there is to do, or was ended. It is then asked to end. */
  readonly untilDone?: (running: Running, ended: AbortSignal) => Promise<void>;
  /** How what is killed ends where nothing kills it; 0 by default. */
  readonly exitCode?: number;
  /** What is different where it is done again after this kill. */
  readonly again?: (kill: string) => Again;
  /** The content of the mirror at the end, by default everything published; null: there is no mirror. */
  readonly expected?: () => Expectation | null;
  /** The published copy, where there is one. */
  readonly copy?: string;
  /** What is wrong right after the kill, in words. */
  readonly wrongAtTheKill?: () => Promise<readonly string[]>;
  /** What is wrong at the end, in words, beside what is always asked. */
  readonly wrongAtTheEnd?: (kill: string) => Promise<readonly string[]>;
  /** What is not compared with what comes of it undisturbed. */
  readonly mayDiffer?: readonly Evidence[];
}

export interface Again {
  readonly words?: readonly string[];
  /** How it ends; as undisturbed by default. */
  readonly exitCode?: number;
  /** What is not compared after this kill, beside what never is. */
  readonly mayDiffer?: readonly Evidence[];
  /** Whether what was committed may be asked for again: a comparison reads all content. */
  readonly mayAskAgain?: boolean;
}

/** The parts that are compared: remaining files, commits of the history, undo logs, content of the checkpoint. */
export type Evidence = 'files' | 'history' | 'past' | 'checkpoint';

export interface Scenario {
  readonly name: string;
  /** A short description of what happens. */
  readonly summary: string;
  readonly feed?: CountyFeedOptions;
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * `every name` that occurs, as an undisturbed run shows; or `its own names`, those that the catalogue has for it: what
   * else occurs there is killed elsewhere in the same state.
   */
  readonly killedAt: 'every name' | 'its own names';
  validate(stage: Stage): Promise<Act>;
}
