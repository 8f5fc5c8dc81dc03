/** What waits for approval, an approval and a pin are seen by the instance that takes over. */

import process from 'node:process';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import { logged } from '../support/logged.ts';
import { eventually } from '../support/patience.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import type { Program } from '../support/program.ts';
import { committedVersions, twoDaemons } from '../support/two-daemons.ts';

if (EMBEDDED.folder === null) process.stderr.write('SKIPPED: npm has installed no PostgreSQL.\n');

/** No row may change without approval; and a state can be restored. */
const environment = { FEED_SYNC_GATES_CHANGED_ROWS: '0', FEED_SYNC_HISTORY_DATASETS: '*' };

async function waitingIn({ run }: Program) {
  const { exitCode, stdout, stderr } = await run('approve', '--json');
  expect(exitCode, stderr).toBe(0);
  return (JSON.parse(stdout) as { readonly datasets: readonly { readonly command: string }[] }).datasets;
}

describe.skipIf(EMBEDDED.folder === null)('candidates in the database', () => {
  const server = postgresOfTests(EMBEDDED);

  async function waitingContent(address: string) {
    const daemons = await twoDaemons(address, { environment });
    const datasetId = daemons.datasetOf('permits');
    daemons.publishNext(datasetId);
    const [candidate] = await eventually(async () => {
      const waiting = await waitingIn(daemons.firstInstalled);
      expect(waiting).toHaveLength(1);
      return waiting;
    });
    const words = String(candidate?.command).split(' ').slice(1);
    return { ...daemons, datasetId, candidate, words };
  }

  const stored = (address: string) =>
    statement(address, 'SELECT version, approved_at IS NOT NULL FROM feed_sync.candidates');

  it('F67 F72 every instance lists a candidate, and the one that takes over commits exactly it', async () => {
    const address = await server.database();
    const { first, second, installed, candidate, words, datasetId } = await waitingContent(address);
    expect(await waitingIn(installed)).toEqual([candidate]);
    first.kill('SIGKILL');
    await first.ended;
    await logged(second, 'Following the subscriptions.');
    expect(await waitingIn(installed)).toEqual([candidate]);
    const status = JSON.parse((await installed.run('status', '--json')).stdout);
    expect({ id: datasetId, ...status.datasets[0].awaitingApproval }).toEqual(candidate);
    // It has none of the files: they are downloaded again, and have the same digest.
    const approved = await installed.run(...words);
    expect(approved, approved.stderr).toMatchObject({ exitCode: 0 });
    expect(approved.stdout).toContain(`Committed version 2 of ${datasetId}`);
    expect(await stored(address)).toEqual([]);
    expect(second.stderr()).not.toContain('A commit waits for approval.');
  });

  it('F67 F72 the second instance uses an approval that the first could not commit, and a pin stays for the next one', async () => {
    const address = await server.database();
    const daemons = await waitingContent(address);
    const { first, second, installed, firstInstalled, words, datasetId, publishNext } = daemons;
    const [[table = ''] = []] = await statement(address, 'SELECT table_name FROM feed_sync.datasets');
    const reader = new pg.Client({ connectionString: address });
    await reader.connect();
    onTestFinished(() => reader.end());
    await reader.query(`BEGIN; LOCK TABLE feeds.${table} IN SHARE MODE`);
    const asking = firstInstalled.start(...words);
    await eventually(async () => expect(await stored(address)).toEqual([['2', 't']]));
    first.kill('SIGKILL');
    asking.kill('SIGKILL');
    await Promise.all([first.ended, asking.ended]);
    await logged(second, 'Following the subscriptions.');
    await reader.query('COMMIT');
    await eventually(async () => expect(await committedVersions(address)).toEqual([['1'], ['2']]));
    expect(await stored(address)).toEqual([]);

    const undone = await installed.run('rollback', datasetId, '--to-version', '1', '--yes');
    expect(undone, undone.stderr).toMatchObject({ exitCode: 0 });
    const third = firstInstalled.start('run');
    await logged(third, 'Stands by: another instance works on the database.');
    second.kill('SIGKILL');
    await second.ended;
    await logged(third, 'Following the subscriptions.');
    publishNext(datasetId);
    await eventually(async () => {
      const status = JSON.parse((await firstInstalled.run('status', '--json')).stdout);
      expect(status.datasets).toMatchObject([{ version: 1, targetVersion: 3 }]);
      expect(status.datasets[0].pinnedSince).not.toBeNull();
    });
    expect(await committedVersions(address)).toEqual([['1'], ['2'], ['1']]);
    third.kill('SIGTERM');
    expect(await third.ended).toMatchObject({ exitCode: 0 });
  });

  it('F67 F72 the instance that takes over reports an approval that was committed before its answer as committed', async () => {
    const address = await server.database();
    const { first, second, installed, words, datasetId } = await waitingContent(address);
    // The first instance commits, and cannot say so.
    await statement(
      address,
      `CREATE FUNCTION feeds.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'not now'; END$$;
       CREATE TRIGGER refuse BEFORE UPDATE ON feed_sync.requests FOR EACH ROW
         WHEN (NEW.answer IS NOT NULL) EXECUTE FUNCTION feeds.refuse()`,
    );
    const asking = installed.start(...words);
    await eventually(async () => expect(await committedVersions(address)).toEqual([['1'], ['2']]));
    first.kill('SIGKILL');
    await first.ended;
    await statement(address, 'DROP FUNCTION feeds.refuse CASCADE');
    await logged(second, 'Following the subscriptions.');
    const { exitCode, stdout, stderr } = await asking.ended;
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toContain(`Committed version 2 of ${datasetId} (`);
    // A candidate that is over is reported as that.
    const again = await installed.run(...words);
    expect(again.exitCode).toBe(64);
    expect(again.stderr).toContain('Nothing of it waits.');
  });
});
