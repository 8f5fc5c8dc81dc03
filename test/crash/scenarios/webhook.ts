/** Scenarios of the daemon: deliveries and a scrub are remembered, and a stale socket makes way. */

import { randomBytes } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import Database from 'better-sqlite3';
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
    summary: '`run` receives two deliveries of the service, which come again after the kill',
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
  {
    name: 'stale socket',
    summary: '`run` starts where a killed process has left the file of its socket',
    environment: { FEED_SYNC_STATUS_LISTEN: 'unix:status.sock' },
    killedAt: 'its own names',
    async validate({ installed }) {
      await once(installed);
      return {
        words: ['run'],
        before: () => leaveSocket(join(installed.home, 'work', 'status.sock')),
        async untilDone(running, ended) {
          await until('a socket', () => running.stderr().includes('"url":"unix:') || ended.aborted);
        },
      };
    },
  },
  {
    name: 'scrub',
    summary: '`run` goes on with a scrub of the mirror that an earlier process has begun',
    killedAt: 'its own names',
    async validate({ installed }) {
      await once(installed);
      const { checkpointPath } = installed;
      onCheckpoint(checkpointPath, (database) => {
        const began = new Date(Date.now() - 60_000).toISOString();
        database.prepare("INSERT INTO scrub VALUES (1, ?, 'feed_sync.datasets', 0, NULL, 0)").run(began);
      });
      const isComplete = (): boolean =>
        onCheckpoint(checkpointPath, (database) =>
          database.prepare('SELECT 1 FROM scrub WHERE completed_at IS NOT NULL').get(),
        ) !== undefined;
      return {
        words: ['run'],
        async untilDone(running, ended) {
          const follows = (): boolean => running.stderr().includes('Following the subscriptions.');
          await until('a complete scrub', () => ended.aborted || (follows() && isComplete()));
        },
      };
    },
  },
];

function onCheckpoint<T>(path: string, use: (database: Database.Database) => T): T {
  const database = new Database(path);
  try {
    return use(database);
  } finally {
    database.close();
  }
}

/** A socket that nobody listens on: closing a server removes the name that it was made with. */
function leaveSocket(path: string): void {
  const server = createServer().listen(`${path}.made`);
  renameSync(`${path}.made`, path);
  server.close();
}

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
