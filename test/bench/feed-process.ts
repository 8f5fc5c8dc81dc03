/** Starts the fixture feed in its own process and talks with it. */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ServeMessage } from './feed-child.ts';

export interface FeedProcess extends AsyncDisposable {
  readonly baseUrl: string;
  readonly filesUrl: string;
  readonly apiKey: string;
  /** By operation (`file` is the download of one), since the last call. */
  requestCounts(): Promise<Readonly<Record<string, number>>>;
}

export async function startFeedProcess(serve: ServeMessage): Promise<FeedProcess> {
  const child = fork(fileURLToPath(new URL('feed-child.ts', import.meta.url)));
  const exited = once(child, 'exit');
  const ask = async (question: ServeMessage | 'requests') => {
    const ended = exited.then(() => Promise.reject(new Error('The process of the fixture feed ended.')));
    const answered = once(child, 'message');
    child.send(question);
    const [answer] = await Promise.race([answered, ended]);
    return answer;
  };
  const { baseUrl, filesUrl, apiKey } = await ask(serve);
  return {
    baseUrl,
    filesUrl,
    apiKey,
    requestCounts: () => ask('requests'),
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}
