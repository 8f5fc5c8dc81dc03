/**
 * Whether reads and writes of the standard streams wait for the other end. That belongs to the pipe, and so to every program that has
 * it: Node opens its pipes without waiting, and gives them back as they were at an exit, but not where the process becomes another.
 */

import { constants, readFileSync } from 'node:fs';

/** Returns null where it cannot be known. */
export function waitsForOtherEnd(fd: number): boolean | null {
  try {
    const [, flags = ''] = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? [];
    return (Number.parseInt(flags, 8) & constants.O_NONBLOCK) === 0;
  } catch {
    return null;
  }
}

/**
 * Has reads and writes wait again. Otherwise the next program of a script that reads from the same pipe, or writes to it, is told to try
 * again, which few do: a loop of a shell ends with its first line, and output is lost.
 */
export function haveWait(fd: number, stream: object | undefined): void {
  if (waitsForOtherEnd(fd) === true) return;
  // A file or a terminal has none, and Node has changed nothing of it. Neither has a stream that came to its end.
  handleOf(stream)?.setBlocking?.(true);
}

/** What is behind a stream of Node that is a pipe or a socket. */
interface Handle {
  setBlocking?(isBlocking: boolean): void;
}

function handleOf(stream: object | undefined): Handle | null {
  const { _handle = null } = (stream ?? {}) as { readonly _handle?: Handle | null };
  return _handle;
}
