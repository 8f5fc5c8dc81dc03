/** Geometries of several parts, of which one is empty. */

import type { Geometry } from '../../fixtures/source/content.ts';

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
    coordinates: [
      [
        [
          [0, 0],
          [1, 0],
          [1, 1],
          [0, 0],
        ],
      ],
      [],
    ],
  },
];
