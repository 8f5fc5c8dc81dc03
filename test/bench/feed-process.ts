/** Starts the fixture feed in its own process and talks with it. */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { DistanceSettings } from '../../fixtures/feed/settings.ts';
import type { DatasetFiles, Recipe } from './dataset-files.ts';
import type { FeedMessage } from './feed-child.ts';
import type { Backlog } from './later-versions.ts';

export interface FeedProcess extends AsyncDisposable {
  readonly baseUrl: string;
  readonly filesUrl: string;
  readonly apiKey: string;
  /** Makes the later versions of every dataset, to which only changes lead. None of them is published yet. */
  plan(recipe: Recipe, backlog: Backlog): Promise<void>;
  /** Publishes the next `versions` of what is planned, of every dataset. */
  publish(versions: number): Promise<void>;
  /** Publishes a version of each dataset with these files, to which no changes lead. */
  publishFiles(datasets: readonly DatasetFiles[]): Promise<void>;
  /** Answers as from far away, from now on. */
  setDistance(distance: DistanceSettings): Promise<void>;
  /** What was asked since the last call, in order. */
  requests(): Promise<readonly MetRequest[]>;
}

export interface MetRequest {
  /** `file` is the download of one. */
  readonly operation: string;
  /** When it arrived, in milliseconds since 1970. */
  readonly atMs: number;
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
    async plan(sameRecipe, backlog) {
      await ask({ kind: 'plan', recipe: sameRecipe, backlog });
    },
    async publish(versions) {
      await ask({ kind: 'publish', versions });
    },
    async publishFiles(datasets) {
      await ask({ kind: 'publish-files', datasets });
    },
    async setDistance(distance) {
      await ask({ kind: 'distance', distance });
    },
    requests: () => ask({ kind: 'requests' }),
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}

/** By operation, since the feed was last asked. */
export async function requestCounts(feed: FeedProcess): Promise<Readonly<Record<string, number>>> {
  const groups = Object.groupBy(await feed.requests(), ({ operation }) => operation);
  return Object.fromEntries(
    Object.entries(groups).map(([operation, requests = []]) => [operation, requests.length]),
  );
}

/** However many operations, all of them. */
export function sumOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}
