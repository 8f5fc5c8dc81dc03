/** Scenarios of an operator's commands: each command killed, and each first catch-up after it. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openCheckpointBeside } from '../../../src/checkpoint/sqlite/open.ts';
import { exampleConfiguration } from '../../../src/configuration/help.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { once } from '../../support/expect-mirrored.ts';
import { writeMirror } from '../../support/mirror-file.ts';
import type { Program } from '../../support/program.ts';
import { tableNameOf } from '../../support/published.ts';
import { sameText } from '../../support/same-text.ts';
import { numberedRows, smallContent } from '../../support/small-content.ts';
import { checkpointOf } from '../evidence.ts';
import type { Act, Again, Scenario, Stage } from '../scenario.ts';

/** From so many on, datasets that leave at once wait for an operator. */
const MANY = 10;

/** What a complete read lacks is gone once a later one lacks it, too. */
const CONFIRMED_MS = 10 * 60_000;

/** The exit code of a command that refuses to do again what is done already. */
const DONE_ALREADY = 64;
const AGAIN_LATER = 75;

export const OPERATORS: readonly Scenario[] = [
  {
    name: 'init',
    summary: '`init`',
    killedAt: 'its own names',
    validate: async ({ installed }) => ({
      words: ['init', 'made.yaml'],
      expected: () => null,
      again: (kill) => (kill.startsWith('after') ? { exitCode: DONE_ALREADY } : {}),
      wrongAtTheEnd: async () =>
        sameText(
          'the file',
          readFileSync(join(installed.home, 'work', 'made.yaml'), 'utf8'),
          exampleConfiguration(),
        ),
    }),
  },
  {
    name: 'webhook add',
    summary: '`webhook add`, where there is no file of secrets yet',
    killedAt: 'its own names',
    validate: addWebhook,
  },
  {
    name: 'webhook remove',
    summary: '`webhook remove`',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      await installed.run('webhook', 'add', 'http://127.0.0.1:1/webhook', '--secret-file', 'secrets');
      const id = county.feed.webhooks.list().at(-1)?.webhookId ?? '';
      return {
        words: ['webhook', 'remove', id, '--yes'],
        again: (kill) => (kill.startsWith('after checkpoint') ? { exitCode: DONE_ALREADY } : {}),
      };
    },
  },
  {
    name: 'query to a file',
    summary: '`query --output`',
    killedAt: 'its own names',
    async validate({ installed }) {
      await once(installed);
      return { words: ['query', 'SELECT 1 AS one', '--output', 'rows.csv', '--yes'] };
    },
  },
  {
    name: 'request resync',
    summary: '`resync` of two datasets',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      return { words: ['resync', ...county.datasetIds] };
    },
  },
  {
    name: 'requested resync',
    summary: 'the catch-up after `resync`',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      await done(installed, 'resync', ...county.datasetIds);
      return {};
    },
  },
  {
    name: 'resume',
    summary: '`resume` of two datasets that were refused',
    killedAt: 'its own names',
    async validate(stage) {
      const { county, installed } = stage;
      await once(installed);
      for (const datasetId of county.datasetIds) {
        county.feed.access.refuse({ kind: 'dataset', datasetId }, { code: 'not_distributable' });
        county.publishNext(datasetId, undefined, { announce: true });
      }
      await once(installed, 77);
      for (const datasetId of county.datasetIds) county.feed.access.lift({ kind: 'dataset', datasetId });
      return {
        words: ['resume', ...county.datasetIds.flatMap((id) => ['--dataset', id])],
        expected: () => null,
        // It lifts the remaining suspensions, and reports the others as not suspended.
        again: (kill) => (kill === 'before checkpoint.lift 1' ? {} : { exitCode: DONE_ALREADY }),
      };
    },
  },
  {
    name: 'approve retirements',
    summary: '`resume --retire`, where many datasets have left at once',
    killedAt: 'its own names',
    async validate({ county: { feed }, installed }) {
      const ids = Array.from({ length: MANY }, (_, index) => `left-${index}`);
      feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ids });
      for (const datasetId of ids) {
        feed.publisher.addDataset({ datasetId, placeId: 'us-tx-travis', topic: 'parcels' });
        feed.publisher.publish(datasetId, smallContent(numberedRows(1)));
      }
      await once(installed);
      for (const datasetId of ids) feed.publisher.remove(datasetId, 'left_coverage');
      await once(installed, 77);
      return { words: ['resume', '--retire', '--yes'], expected: () => null };
    },
  },
  {
    name: 'forget',
    summary: '`forget` of two subscriptions that are gone',
    killedAt: 'its own names',
    async validate(stage) {
      await withoutSubscriptions(stage);
      return {
        words: ['forget', '--subscription', 'sub_2', '--subscription', 'sub_3', '--yes'],
        expected: () => null,
        again: (kill) => (kill.startsWith('after') ? { exitCode: DONE_ALREADY } : {}),
      };
    },
  },
  {
    name: 'roll back',
    summary: '`rollback` of a table to its first version',
    killedAt: 'its own names',
    environment: { FEED_SYNC_HISTORY_DATASETS: '*' },
    async validate(stage) {
      const datasetId = await updated(stage);
      return {
        words: ['rollback', datasetId, '--to-version', '1', '--yes'],
        // What is rolled back already needs no rollback.
        again: (kill) => (isRolledBackAfter(kill) ? { exitCode: DONE_ALREADY } : {}),
        expected: () => null,
        mayDiffer: ['checkpoint', 'files'],
        wrongAtTheEnd: async () => wrongVersions(stage, datasetId, 1),
      };
    },
  },
  {
    name: 'unpin',
    summary: '`resume` of a dataset that a rollback has pinned',
    killedAt: 'its own names',
    environment: { FEED_SYNC_HISTORY_DATASETS: '*' },
    async validate(stage) {
      const datasetId = await updated(stage);
      await done(stage.installed, 'rollback', datasetId, '--to-version', '1', '--yes');
      return {
        words: ['resume', '--dataset', datasetId, '--yes'],
        again: (kill) =>
          /settle-request|after destination.lift-pin/.test(kill) ? { exitCode: DONE_ALREADY } : {},
        expected: () => null,
        mayDiffer: ['checkpoint'],
        wrongAtTheEnd: async () => wrongVersions(stage, datasetId, 1),
      };
    },
  },
  {
    name: 'repair',
    summary:
      '`verify --deep --repair` of a table with a row that was deleted by hand, and of others that are equal',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      const table = tableNameOf(county.datasetIds[0] ?? '');
      await writeMirror(installed.mirrorPath, `DELETE FROM ${table} WHERE rowid = 0`);
      return {
        words: ['verify', '--deep', '--repair', '--yes'],
        again: againAfterRepair,
      };
    },
  },
  {
    name: 'requested',
    summary: 'the catch-up that answers the request of another command',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      await requestUnknown(installed, county.datasetIds[0] ?? '');
      return { expected: () => null };
    },
  },
  {
    name: 'forgotten',
    summary: 'the catch-up after `forget`',
    killedAt: 'its own names',
    async validate(stage) {
      await withoutSubscriptions(stage);
      await done(stage.installed, 'forget', '--subscription', 'sub_2', '--subscription', 'sub_3', '--yes');
      return {};
    },
  },
];

async function done(installed: Program, ...words: readonly string[]): Promise<void> {
  const { exitCode, stderr } = await installed.run(...words);
  if (exitCode !== 0) throw new Error(`${words.join(' ')} ended with ${exitCode}:\n${stderr}`);
}

/** A request that the program does not know: it answers, and does nothing. */
async function requestUnknown({ checkpointPath }: Program, datasetId: string): Promise<void> {
  const checkpoint = openCheckpointBeside({ path: checkpointPath, uid: null, clock: systemClock });
  if (checkpoint === null) throw new Error('there is no checkpoint');
  const request = { requestId: 'request', datasetId, command: 'of a later version', parameters: {} };
  await checkpoint.requests.ask(request, systemClock.now());
  checkpoint.close();
}

/** Two subscriptions that were mirrored are gone, for as long as it takes to be sure of that. */
async function withoutSubscriptions({ county, installed }: Stage): Promise<void> {
  const { publisher, clock } = county.feed;
  for (const subscriptionId of ['sub_2', 'sub_3']) {
    publisher.subscribe({ subscriptionId, datasetIds: county.datasetIds });
  }
  await once(installed);
  for (const subscriptionId of ['sub_2', 'sub_3']) publisher.unsubscribe(subscriptionId);
  await once(installed);
  clock.advance(CONFIRMED_MS);
  await once(installed, 77);
}

/**
 * A secret that is in the file is one of the service, and the newest comes first. Killed after the service was asked and
 * before the secret was kept, the webhook is there and its secret lost: adding it again makes another one.
 */
async function addWebhook({ county: { feed }, installed }: Stage): Promise<Act> {
  await once(installed);
  const path = join(installed.home, 'work', 'secrets');
  const secretsInFile = (): readonly string[] => {
    try {
      return readFileSync(path, 'utf8')
        .split('\n')
        .filter((line) => line !== '');
    } catch {
      return [];
    }
  };
  const strangers = async (): Promise<readonly string[]> => {
    const known = feed.webhooks.list().flatMap(({ secrets }) => secrets);
    return secretsInFile()
      .filter((secret) => !known.includes(secret))
      .map(() => 'a secret of no webhook');
  };
  return {
    words: ['webhook', 'add', 'http://127.0.0.1:1/webhook', '--secret-file', 'secrets', '--yes'],
    expected: () => null,
    wrongAtTheKill: strangers,
    wrongAtTheEnd: async (kill) => {
      const newest = feed.webhooks.list().at(-1);
      const kept = kill.startsWith('after cli.add-secret') || kill.includes('keep-webhook') ? 2 : 1;
      return [
        ...(await strangers()),
        ...sameText('the first secret', secretsInFile()[0], newest?.secrets[0]),
        ...sameText('secrets', secretsInFile().length, kept),
        ...((checkpointOf(installed)['webhooks'] as readonly string[]).some((row) =>
          row.includes(newest?.webhookId ?? '?'),
        )
          ? []
          : ['the id of the newest webhook is not kept']),
      ];
    },
    mayDiffer: ['checkpoint'],
  };
}

/** Two versions of the first dataset are mirrored. */
async function updated({ county, installed }: Stage): Promise<string> {
  await once(installed);
  const [datasetId = ''] = county.datasetIds;
  county.publishNext(datasetId);
  await once(installed);
  return datasetId;
}

/**
 * Where the request of the killed command still waits, it is performed first, and the table is another then. Once the table is repaired
 * the comparison finds it equal: what the repair has staged stays until the next catch-up.
 */
function againAfterRepair(kill: string): Again {
  if (kill.startsWith('after checkpoint.ask')) return { exitCode: AGAIN_LATER };
  const isRepaired = kill.startsWith('after destination.commit') && !kill.endsWith(' 1');
  return isRepaired ? { mayDiffer: ['files'], mayAskAgain: true } : {};
}

/** The answer is stored after the commit, and a request that was not begun is performed before that of the next command. */
function isRolledBackAfter(kill: string): boolean {
  return (
    kill.includes('settle-request') ||
    (kill.startsWith('after destination.commit') && !kill.endsWith(' 1')) ||
    kill === 'after checkpoint.ask 1' ||
    kill === 'before checkpoint.begin-request 1'
  );
}

async function wrongVersions(
  { installed }: Stage,
  datasetId: string,
  version: number,
): Promise<readonly string[]> {
  const sql = `SELECT version FROM feed_sync.datasets WHERE dataset_id = '${datasetId}'`;
  const { stdout } = await installed.run('query', sql, '--format', 'json');
  return sameText('the version', stdout.trim(), `{"version":${version}}`);
}
