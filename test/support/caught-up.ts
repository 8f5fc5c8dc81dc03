/**
 * A daemon that has caught up with all that is published by now, seen by its own status server: reading the mirror again
 * and again would keep the daemon from writing.
 */

import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { logged } from './logged.ts';
import { eventually } from './patience.ts';
import type { Running } from './program.ts';
import { ask } from './status-server.ts';

/**
 * The first answer may have been on its way, spoilt by a fault that is over now. Polls are read one after the other: when the
 * third is answered, everything that the second one announced is known.
 */
const POLLS = 3;

/** Needs a daemon that polls often, logs its lines as JSON, and follows one subscription. */
export async function caughtUp(run: Running, feed: FixtureFeed): Promise<void> {
  const before = feed.requests.entries('events').length;
  await eventually(async () => {
    const polls = feed.requests.entries('events').slice(before);
    if (polls.filter(({ status }) => status === 200).length < POLLS)
      throw new Error('It has not polled since.');
    const { url } = JSON.parse(await logged(run, 'The status server listens.')) as { readonly url: string };
    const [ready, health] = [await ask(`${url}/readyz`), await ask(`${url}/healthz`)];
    const { behind, working, failed } = JSON.parse(health.text).datasets;
    if (ready.status !== 200 || behind + working + failed > 0)
      throw new Error(`It has not caught up: ${ready.text}${health.text}`);
  });
}
