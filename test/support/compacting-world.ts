/** A mirror with content of every kind, to be compacted, and the evidence that is compared then. */

import { readdirSync, statSync } from 'node:fs';
import { expect } from 'vitest';
import type { CompactOptions } from '../../src/destination/duckdb/copies/compact.ts';
import { compactAt } from './compacting.ts';
import { firstContent, sourceSchema } from './duckdb-changes.ts';
import { type MirrorAtWork, mirrorAtWork } from './mirror-at-work.ts';
import { column } from './small-content.ts';
import { TRIANGLE } from './triangle.ts';

export const SHAPES = sourceSchema([
  { ...column('id', 'integer', false), description: 'The number of the "parcel".' },
  column('name', 'string'),
  column('area', 'number'),
  column('shape', 'geometry'),
  column('extra', 'json'),
  column('seen', 'timestamp'),
]);
export const PLOT = { type: 'Polygon', coordinates: [TRIANGLE] } as const;

/** A mirror with a table, changed since it was loaded, and one that is archived. */
export async function workedOnMirror(): Promise<MirrorAtWork> {
  const made = await mirrorAtWork();
  const row = (id: number) => [
    id,
    `name ${id}`,
    id / 3,
    PLOT,
    { json: { n: id } },
    '2026-01-01T00:00:00.123456Z',
  ];
  const course = await made.loaded(firstContent(SHAPES, [row(1), row(2), row(3)]));
  course.publishRows([row(1), row(3), row(9)]);
  await made.apply(course);
  await made.retire(await made.loaded(firstContent(SHAPES, [row(5)]), 'old'), 'archive');
  return made;
}

/** What lies beside the mirror under its name, and the mirror. */
export function namesBeside({ folder }: MirrorAtWork): readonly string[] {
  return readdirSync(folder).filter((name) => name.startsWith('mirror'));
}

/** What was thrown, where the mirror is the same file with the same content, and nothing lies beside it. */
export async function refusedAt(made: MirrorAtWork, options: Partial<CompactOptions> = {}): Promise<Error> {
  const before = statSync(made.path, { bigint: true });
  const error: unknown = await compactAt(made.path, options).catch((thrown: unknown) => thrown);
  expect(namesBeside(made)).toEqual(['mirror.duckdb']);
  expect(statSync(made.path, { bigint: true }).ino).toBe(before.ino);
  if (error instanceof Error) return error;
  throw new Error('it was compacted');
}
