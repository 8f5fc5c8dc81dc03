/** The terminal of commands in this process. */

import type { Context } from '../../src/cli/context.ts';

type Terminal = Context['terminal'];

/** A terminal that nobody watches: neither colours nor pages. */
export function unwatchedTerminal(
  outputs: Pick<Terminal, 'stdout' | 'stderr' | 'width'> & Partial<Terminal>,
): Terminal {
  return { isWatched: false, hasColor: false, height: null, resultWidth: null, ...outputs };
}
