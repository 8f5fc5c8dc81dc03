/** Changes of one version as their pages are written, text by text, for a table in a mirror of its own. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Row, SourceColumn, SourceSchema } from '../../fixtures/source/content.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import type { VersionChanges } from '../../src/model/write-jobs.ts';
import { firstContent, sourceSchema } from './duckdb-changes.ts';
import { inMirror } from './duckdb-mirror.ts';
import { type MirrorAtWork, mirrorAtWork } from './mirror-at-work.ts';

export interface WrittenTable {
  readonly world: MirrorAtWork;
  /** The changes, a list of texts for each page, as the version after that of the table. What is wrong with them is thrown. */
  apply(pages: readonly (readonly string[])[], stated?: Partial<VersionChanges>): Promise<JobResult>;
  /** The rows of the table in order. */
  rows(select?: string): ReturnType<typeof inMirror>;
}

export async function writtenTable(
  columns: readonly SourceColumn[],
  rows: readonly Row[] = [],
  rest: Partial<SourceSchema> = {},
): Promise<WrittenTable> {
  const world = await mirrorAtWork();
  const course = await world.loaded(firstContent(sourceSchema(columns, rest), rows));
  return {
    world,
    async apply(pages, stated = {}) {
      const { version } = await world.observed();
      const directory = join(world.folder, `written-${version}`);
      await mkdir(directory, { recursive: true });
      const paths = pages.map((_, index) => join(directory, `${index}.json`));
      for (const [index, changes] of pages.entries()) {
        await writeFile(
          paths[index] ?? '',
          `{"recorded":true,"changes":[${changes.join()}],"nextCursor":null}`,
        );
      }
      const next = { version: version + 1, counts: null, rowCount: null, ...stated, pages: paths };
      return world.apply(course, { version: version + 1, versions: [next] });
    },
    rows: (select = '*') => inMirror(world.folder, `SELECT ${select} FROM parcels ORDER BY ALL`),
  };
}
