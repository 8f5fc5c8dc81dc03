/** What a command is given of the world outside: nothing else of it is ambient. */

import type { Environment } from '../configuration/levels.ts';
import type { ReadFile } from '../configuration/locate.ts';
import type { Machine } from '../configuration/setting.ts';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';
import type { Terminal } from './terminal.ts';

export interface Context {
  readonly terminal: Terminal;
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly machine: Machine;
  readonly identity: ProcessIdentity;
  readonly runtime: Runtime;
  readonly readFile: ReadFile;
  readonly clock: Clock;
  readonly random: Random;
  /** Aborted with an `InterruptedError` when the process is asked to stop. */
  readonly signal: AbortSignal;
}

export interface ProcessIdentity {
  readonly pid: number;
  readonly host: string;
  /** Numeric user id; null where the system has none. */
  readonly uid: number | null;
}

/** What the program runs on, for people. */
export interface Runtime {
  /** `24.21.0`. */
  readonly nodeVersion: string;
  /** `Linux 6.8.0 x64`. */
  readonly operatingSystem: string;
}
