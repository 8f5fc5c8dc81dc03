/** How a process of the program is steered from outside: by the variables that steered-process-child.ts reads. */

import { pathToFileURL } from 'node:url';
import { scriptPath } from './child.ts';

export interface Steering {
  /** A file to which every point before or after a durable effect is written, a line each: `before destination.commit`. */
  readonly recordTo?: string;
  /**
   * Where SIGKILL ends it: at the nth point of any kind (`7`), or at the nth of this one (`before destination.commit 2`;
   * without a number the first).
   */
  readonly killAt?: string;
}

const PRELUDE = pathToFileURL(scriptPath('steered-process-child.ts')).href;

/** The variables of a process that is steered so. */
export function steered({ recordTo, killAt }: Steering): Readonly<Record<string, string>> {
  return {
    NODE_OPTIONS: `--import=${PRELUDE}`,
    ...(recordTo === undefined ? {} : { STEERED_RECORD: recordTo }),
    ...(killAt === undefined ? {} : { STEERED_KILL_AT: killAt }),
  };
}
