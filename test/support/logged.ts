/** What a process of the program has logged: waited for, line by line. */

import { expect } from 'vitest';
import { eventually } from './patience.ts';
import type { Running } from './program.ts';

/** Resolves with the last line whose message begins so, once there are so many of them. */
export function logged(run: Running, message: string, times = 1): Promise<string> {
  return eventually(() => {
    const lines = run.stderr().split('\n').slice(0, -1);
    const found = lines.filter((line) => line.includes(`"msg":"${message}`));
    if (found.length < times)
      expect.fail(`Logged ${found.length} of ${times}: ${message}\n${lines.join('\n')}`);
    return found.at(-1) ?? '';
  });
}
