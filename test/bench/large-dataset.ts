/** One dataset of so many polygons, in eight files. */

import type { Size } from './case.ts';
import type { Recipe } from './dataset-files.ts';

export const TWO_MILLION_POLYGONS: Readonly<Record<Size, Recipe>> = {
  full: polygons(2_000_000),
  quick: polygons(2_000),
};

export function polygons(rowsPerDataset: number): Recipe {
  return { seed: 1, counties: 1, rowsPerDataset, kinds: ['parcels'], filesPerDataset: 8 };
}
