/** Geometries of several parts, of which one is empty. */

import type { Geometry } from '../../fixtures/source/content.ts';
import { TRIANGLE } from './triangle.ts';

export const GEOMETRIES_WITH_EMPTY_PARTS: readonly Geometry[] = [
  { type: 'MultiPoint', coordinates: [[1, 2], []] },
  {
    type: 'MultiLineString',
    coordinates: [
      [],
      [
        [1, 2],
        [3, 4],
      ],
    ],
  },
  {
    type: 'MultiPolygon',
    coordinates: [[TRIANGLE], []],
  },
];
