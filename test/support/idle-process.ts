/** The sides of a context that only a process which runs on has a use for: nobody asks for anything, nothing is ended. */

import type { Context } from '../../src/cli/context.ts';

export const IDLE_PROCESS: Pick<Context, 'ask' | 'requests' | 'microsecondsSinceBoot' | 'endAtOnce'> = {
  ask: null,
  requests: { onReload() {}, onPoll() {} },
  microsecondsSinceBoot: () => 0n,
  endAtOnce(code) {
    throw new Error(`The process was to be ended with ${code}.`);
  },
};
