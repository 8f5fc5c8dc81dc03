/** The contest of a catch-up with nothing new: mostly the start of a process. */

import type { Contest } from './case.ts';
import type { Recipe } from './dataset-files.ts';
import { measureScript } from './measured-process.ts';
import { mirrored } from './mirrored.ts';
import { inFolder, measureOnce, mirrorIn } from './program-run.ts';

/** Beside a process that opens the mirror with DuckDB, reads which versions it has, and ends. */
export async function nothingNewContest(recipe: Recipe, workspace: string): Promise<Contest> {
  const { feed, data } = await mirrored(recipe, workspace);
  return {
    subject: () => inFolder(workspace, (folder) => measureOnce(feed, data, folder)),
    reference: () =>
      inFolder(workspace, (folder) =>
        measureScript({ script: 'raw/versions.mjs', values: [mirrorIn(data)], folder }),
      ),
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}
