/** What a command is given of the world outside: nothing else of it is ambient. */

import type { ReadFile } from '../configuration/file.ts';
import type { Environment, Machine } from '../configuration/schema.ts';
import type { Random } from '../lib/backoff.ts';
import type { Clock } from '../lib/clock.ts';
import type { ExitCode } from './exit-codes.ts';

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
interface Requests {
  /** SIGHUP: start anew, with the configuration as it is by now. */
  onReload(listener: () => void): void;
  /** SIGUSR2: ask the service now whether something was published. */
  onPoll(listener: () => void): void;
}

interface ProcessIdentity {
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

export interface Terminal {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  /** Whether a person watches standard error. */
  readonly isWatched: boolean;
  /** Whether standard error shows colours, and nobody has asked for none (`NO_COLOR`). */
  readonly hasColor: boolean;
  /** Columns of the screen, as it is now; a sensible width where there is none. */
  readonly width: number;
  /** Rows of a screen that can be drawn over, as it is now; null where standard error is none. */
  readonly height: number | null;
}

/** Resolves once the stream has taken the text, so that a slow reader slows the writer down and not the memory up. */
export function write(stream: NodeJS.WritableStream, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => (error ? reject(error) : resolve()));
  });
}
