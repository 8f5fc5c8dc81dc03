/** What a command is given of the world outside: nothing else of it is ambient. */

import type { Environment } from '../configuration/levels.ts';
import type { ReadFile } from '../configuration/locate.ts';
import type { Machine } from '../configuration/setting.ts';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';
import type { ExitCode } from './exit-codes.ts';
import type { Terminal } from './terminal.ts';

export interface Context {
  readonly terminal: Terminal;
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly machine: Machine;
  readonly identity: ProcessIdentity;
  readonly runtime: Runtime;
  readonly readFile: ReadFile;
  /** All that comes, up to about so many characters: what is longer ends there. */
  readonly readStandardInput: (maxCharacters: number) => Promise<string>;
  readonly clock: Clock;
  readonly random: Random;
  /** Aborted with an `InterruptedError` when the process is asked to stop. */
  readonly signal: AbortSignal;
  readonly requests: Requests;
  /** Microseconds on the system's clock that counts from the start of the machine. */
  readonly microsecondsSinceBoot: () => bigint;
  /** Ends the process, whatever is under way in it: nothing is closed, and nothing after the call runs. */
  readonly endAtOnce: (code: ExitCode) => void;
}

/** What a process that runs on may be asked for. Nobody who does not listen is asked: a signal then ends the process. */
export interface Requests {
  /** SIGHUP: start anew, with the configuration as it is by now. */
  onReload(listener: () => void): void;
  /** SIGUSR2: ask the service now whether something was published. */
  onPoll(listener: () => void): void;
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
  /** The oldest that feed-sync is made for. */
  readonly leastNodeVersion: string;
  /** `Linux 6.8.0 x64`. */
  readonly operatingSystem: string;
}
