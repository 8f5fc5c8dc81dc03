/** Coordinates that several tests share. */

import type { Position } from '../../fixtures/source/content.ts';

/** The ring of a polygon. */
export const TRIANGLE: readonly Position[] = [
  [0, 0],
  [1, 0],
  [1, 1],
  [0, 0],
];
