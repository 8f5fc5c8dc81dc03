/** Rewriting a mirror, with its texts and geometries compressed. Beside the program stands raw DuckDB, which copies the same file. */

import { join } from 'node:path';
import type { BenchCase, Contest } from './case.ts';
import { type Content, compareContents, contentOf } from './content.ts';
import type { Recipe } from './dataset-files.ts';
import { TWO_MILLION_POLYGONS } from './large-dataset.ts';
import { measureScript } from './measured-process.ts';
import { mirrored } from './mirrored.ts';
import { copyOf, inFolder, megabytesOf, mirrorIn, programSettings, sizeOfMirror } from './program-run.ts';
import { checkMirror } from './table-counts.ts';

export const compactCompress: BenchCase = {
  name: 'compact-compress',
  what: '`compact --compress` of a mirror of 2 million polygons, beside raw DuckDB, which copies the same file',
  reach: [{ measure: 'mirrorMegabytesRatio', atMost: 1.1, moonshot: 1 }],
  validate: (size, workspace) => compactContest(TWO_MILLION_POLYGONS[size], workspace),
};

/** Raw DuckDB compresses by default, and compares nothing. Both sides have to end with the same rows. */
export async function compactContest(recipe: Recipe, workspace: string): Promise<Contest> {
  const { feed, datasets, data } = await mirrored(recipe, workspace);
  const ids = datasets.map(({ datasetId }) => datasetId);
  const contentIn = (database: string): Promise<Content> =>
    contentOf(database, ids, (datasetId) => datasetId.replaceAll('-', '_'));
  const loaded = await contentIn(mirrorIn(data));
  const firstMirrorMegabytes = await sizeOfMirror(data);
  return {
    subject: () =>
      inFolder(workspace, async (folder) => {
        const copy = await copyOf(data, folder);
        const sample = await measureScript({
          script: '../../dist/main.js',
          values: ['compact', '--compress'],
          environment: programSettings(feed, copy),
          folder,
        });
        await checkMirror(mirrorIn(copy), datasets);
        compareContents(loaded, await contentIn(mirrorIn(copy)));
        const mirrorMegabytes = await sizeOfMirror(copy);
        return { ...sample, counts: { firstMirrorMegabytes, mirrorMegabytes } };
      }),
    reference: () =>
      inFolder(workspace, async (folder) => {
        const database = join(folder, 'raw.duckdb');
        const values = [mirrorIn(data), database];
        const sample = await measureScript({ script: 'raw/compact.mjs', values, folder });
        compareContents(loaded, await contentIn(database));
        return { ...sample, counts: { mirrorMegabytes: await megabytesOf(database) } };
      }),
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}
