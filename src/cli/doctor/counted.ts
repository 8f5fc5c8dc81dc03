/** Numbers of things in words. Pure. */

import { formatCount } from '../../lib/units.ts';

/** `1 dataset`, `2,000 datasets`. `one` makes its plural with an s. */
export function counted(count: number, one: string): string {
  return `${formatCount(count)} ${one}${count === 1 ? '' : 's'}`;
}
