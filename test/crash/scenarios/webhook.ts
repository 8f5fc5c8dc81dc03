/** A scenario of what the service pushes: deliveries that are remembered, so that each wakes the program once. */

import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { headersOf } from '../../../fixtures/feed/webhook-delivery.ts';
import { once } from '../../support/expect-mirrored.ts';
import { until } from '../../support/patience.ts';
import type { Running } from '../../support/program.ts';
import type { Scenario } from '../scenario.ts';

const SECRET = `whsec_${randomBytes(24).toString('base64')}`;
const BODY = '{"type":"ping","data":{}}';

export const WEBHOOK: readonly Scenario[] = [
  {
    name: 'deliveries',
    what: '`run` receives two deliveries of the service, which come again after the kill',
    environment: { FEED_SYNC_WEBHOOK_SECRET_FILE: 'secrets' },
    killedAt: 'its own names',
    async validate({ installed }) {
      writeFileSync(join(installed.home, 'work', 'secrets'), `${SECRET}\n`, { mode: 0o600 });
      await once(installed);
      return {
        words: ['run'],
        async untilDone(running, ended) {
          const url = await addressOf(running, ended);
          await deliver(url, 'msg_1');
          await deliver(url, 'msg_2');
        },
      };
    },
  },
];

/** Of its status server, once it listens. */
async function addressOf(running: Running, ended: AbortSignal): Promise<string> {
  const url = (): string => /"url":"(http:[^"]+)"/.exec(running.stderr())?.[1] ?? '';
  await until('an address', () => url() !== '' || ended.aborted);
  return url();
}

/** Where the process ends meanwhile there is no answer. */
async function deliver(url: string, id: string): Promise<void> {
  const message = { id, type: 'ping', body: BODY };
  const headers = headersOf({ header: null, secrets: [SECRET] }, message, new Date());
  const answer = await fetch(`${url}/webhook`, { method: 'POST', headers, body: BODY }).catch(() => null);
  await answer?.body?.cancel();
  if (answer !== null && answer.status !== 204)
    throw new Error(`a delivery was answered with ${answer.status}`);
}
