/** A real process that runs one of our scripts, and the lines it prints. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface Child {
  readonly pid: number;
  /** The next line of its standard output. @throws Error when it ended without one. */
  nextLine(): Promise<string>;
  /** Sends SIGKILL and waits for its end; also when it has ended already. */
  kill(): Promise<void>;
}

/** Starts `script`, a path from the folder of this file, with this Node. */
export function startChild(script: string, ...values: readonly string[]): Child {
  const child = spawn(process.execPath, [scriptPath(script), ...values], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    pid: pidOf(child),
    async nextLine() {
      const line = await lines.next();
      if (line.done === true) throw new Error(`${script} ended without a further line`);
      return line.value;
    },
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** The path of a script that lies beside this file. */
export function scriptPath(script: string): string {
  return fileURLToPath(new URL(script, import.meta.url));
}

function pidOf(child: ChildProcess): number {
  if (child.pid === undefined) throw new Error('the process did not start');
  return child.pid;
}
