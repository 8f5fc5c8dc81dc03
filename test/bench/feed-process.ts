/** Starts the fixture feed in its own process and talks with it. */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { DatasetFiles, Recipe } from './dataset-files.ts';
import type { FeedMessage } from './feed-child.ts';
import type { Backlog } from './later-versions.ts';

export interface FeedProcess extends AsyncDisposable {
  readonly baseUrl: string;
  readonly filesUrl: string;
  readonly apiKey: string;
  /** Publishes later versions of the first dataset, to which only changes lead. */
  publish(recipe: Recipe, backlog: Backlog): Promise<void>;
  /** By operation (`file` is the download of one), since the last call. */
  requestCounts(): Promise<Readonly<Record<string, number>>>;
}

/** The first version of every dataset is published. */
export async function startFeedProcess(
  recipe: Recipe,
  datasets: readonly DatasetFiles[],
): Promise<FeedProcess> {
  const child = fork(fileURLToPath(new URL('feed-child.ts', import.meta.url)));
  const exited = once(child, 'exit');
  const ask = async (question: FeedMessage) => {
    const ended = exited.then(() => Promise.reject(new Error('The process of the fixture feed ended.')));
    const answered = once(child, 'message');
    child.send(question);
    const [answer] = await Promise.race([answered, ended]);
    return answer;
  };
  const { baseUrl, filesUrl, apiKey } = await ask({ kind: 'serve', recipe, datasets });
  return {
    baseUrl,
    filesUrl,
    apiKey,
    async publish(sameRecipe, backlog) {
      await ask({ kind: 'publish', recipe: sameRecipe, backlog });
    },
    requestCounts: () => ask({ kind: 'count-requests' }),
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}
