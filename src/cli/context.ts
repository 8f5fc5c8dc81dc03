/** The surroundings of a command: it uses nothing else from outside. */

import type { ReadFile } from '../configuration/file.ts';
import type { Environment, Machine } from '../configuration/setting.ts';
import type { Random } from '../lib/backoff.ts';
import type { Clock } from '../lib/clock.ts';
import { systemCode, systemReason } from '../lib/files.ts';
import { StorageError } from '../model/errors.ts';
import type { ExitCode } from './exit-codes.ts';

export interface Context {
  readonly terminal: Terminal;
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly machine: Machine;
  readonly identity: ProcessIdentity;
  readonly runtime: Runtime;
  readonly readFile: ReadFile;
  /** Reads up to about so many characters; longer input is cut there. */
  readonly readStandardInput: (maxCharacters: number) => Promise<string>;
  /** Asks a question on the terminal and returns the line that answers it, empty at its end; null without a terminal. */
  readonly ask: ((question: string) => Promise<string>) | null;
  readonly clock: Clock;
  readonly random: Random;
  /** Aborted with an `InterruptedError` when the process is asked to stop. */
  readonly signal: AbortSignal;
  readonly requests: Requests;
  /** Microseconds on the system's clock, which counts from the start of the machine. */
  readonly microsecondsSinceBoot: () => bigint;
  /** Ends the process at once: nothing is closed, and nothing after the call runs. */
  readonly endAtOnce: (code: ExitCode) => void;
}

/** The requests that a running process may receive. Without a listener a signal ends the process. */
interface Requests {
  /** SIGHUP: restart with the current configuration. */
  onReload(listener: () => void): void;
  /** SIGUSR2: poll the service now. */
  onPoll(listener: () => void): void;
}

interface ProcessIdentity {
  readonly pid: number;
  readonly host: string;
  /** Numeric user id; null where the system has none. */
  readonly uid: number | null;
}

/** The runtime of the program, for people. */
export interface Runtime {
  /** `24.21.0`. */
  readonly nodeVersion: string;
  /** The oldest version that feed-sync supports. */
  readonly leastNodeVersion: string;
  /** `Linux 6.8.0 x64`. */
  readonly operatingSystem: string;
}

export interface Terminal {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  /** Whether an operator watches standard error. */
  readonly isWatched: boolean;
  /** Whether standard error shows colours, and the user did not disable them (`NO_COLOR`). */
  readonly hasColor: boolean;
  /** The current width of the screen in columns; a sensible width where there is no screen. */
  readonly width: number;
  /** The current width of the screen that shows standard output; null where standard output goes elsewhere. */
  readonly resultWidth: number | null;
  /** The current height of a screen that can be redrawn, in rows; null where standard error is no such screen. */
  readonly height: number | null;
}

/**
 * Resolves once the stream has accepted the text, so that a slow reader slows the writer instead of filling the memory. False where
 * nobody reads any more, as behind `head`: that is no error. @throws StorageError where the text cannot be stored.
 */
export function write(stream: NodeJS.WritableStream, text: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      if (error == null) resolve(true);
      else if (isWithoutReader(stream, error)) resolve(false);
      else reject(notWritten(error));
    });
  });
}

/** Writes a message beside the result of a command. A message that cannot be written is lost: the exit code stands for it. */
export async function writeMessage({ stderr }: Pick<Terminal, 'stderr'>, text: string): Promise<void> {
  await write(stderr, text).catch(() => {});
}

/** A pipe or a socket whose other end is closed, or a terminal that is gone. */
function isWithoutReader(stream: NodeJS.WritableStream, error: Error): boolean {
  const code = systemCode(error);
  const isGone = code === 'EIO' && 'isTTY' in stream && stream.isTTY === true;
  return code === 'EPIPE' || code === 'ECONNRESET' || isGone;
}

function notWritten(cause: Error): StorageError {
  return new StorageError(`The output could not be written: ${systemReason(cause)}.`, {
    hint: 'Free some space where it is written to, or write it elsewhere.',
    cause,
  });
}
