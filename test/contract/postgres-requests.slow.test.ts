/** What operators ask of one instance is done by the other one, which works on the database. */

import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import { type CommandLine, commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';
import { eventually } from '../support/patience.ts';
import { postgresOfTest, postgresOfTests } from '../support/postgres-of-tests.ts';
import { committedVersions, twoDaemons } from '../support/two-daemons.ts';

if (EMBEDDED.folder === null) process.stderr.write('SKIPPED: npm has installed no PostgreSQL.\n');

describe.skipIf(EMBEDDED.folder === null)('requests by way of the database', () => {
  const server = postgresOfTests(EMBEDDED);

  const requests = (address: string) =>
    statement(
      address,
      'SELECT command, state, begun_by <> $$$$, finished_at IS NOT NULL FROM feed_sync.requests ORDER BY requested_at',
    );

  /** Loads, then asks for a resync while another instance has the lease, which answers as the test says. */
  async function askAnother(address: string, line: CommandLine, datasetId: string) {
    expect(await line.run('once')).toMatchObject({ exitCode: 0 });
    await statement(
      address,
      "UPDATE feed_sync.lease SET token = 'another', expires_at = clock_timestamp() + interval '1 hour'",
    );
    const asking = line.run('resync', datasetId);
    await eventually(async () => expect(await requests(address)).toHaveLength(1));
    return { asking };
  }

  it('the working instance does a resync that the standby was asked for, and answers a mistake as its own', async () => {
    const address = await server.database();
    const { installed, firstInstalled, datasetOf } = await twoDaemons(address);
    const datasetId = datasetOf('permits');
    const asked = await installed.run('resync', datasetId);
    expect(asked).toMatchObject({ exitCode: 0 });
    expect(asked.stdout).toContain(
      `Will be loaded again from the snapshot at the next catch-up: ${datasetId}.`,
    );
    await eventually(async () => expect(await committedVersions(address)).toEqual([['1'], ['1']]));
    expect(await requests(address)).toEqual([
      ['resync', 'done', 't', 't'],
      ['resync', 'done', 't', 't'],
    ]);
    // The instance that works answers as it would its own operator.
    for (const words of [
      ['resync', 'permit'],
      ['resume', '--dataset', datasetId],
      ['forget', '--subscription', 'sub_nobody', '--yes'],
      ['approve', datasetId, '--version', '1', '--content', '0123abcd'],
    ]) {
      const [here, there] = [await firstInstalled.run(...words), await installed.run(...words)];
      expect(here.exitCode).toBe(64);
      expect({ exitCode: there.exitCode, stderr: there.stderr }).toEqual({
        exitCode: 64,
        stderr: here.stderr,
      });
    }
    expect((await installed.run('resync', '--all')).stderr).toContain(
      'This loads the snapshots of all 1 dataset again.',
    );
    expect(await installed.run('resync', '--all', '--yes')).toMatchObject({ exitCode: 0 });
    await eventually(async () => expect(await committedVersions(address)).toEqual([['1'], ['1'], ['1']]));
  });

  it.each([
    { begunBy: 'NULL', said: 'before its request was begun. Nothing was done.' },
    { begunBy: "'an earlier one'", said: 'had begun its request and ended before it answered' },
  ])('a command that is stopped says what it knows of its request: begun by $begunBy', async (request) => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 5 });
    const address = await server.database();
    const stop = new AbortController();
    const environment = { FEED_SYNC_DESTINATION_URL: address, PATH: process.env['PATH'] ?? '' };
    const now = () => feed.clock.now();
    const line = commandLine({ feed, now, environment, signal: stop.signal, onWait() {} });
    onTestFinished(() => line.remove());
    const { asking } = await askAnother(address, line, datasetOf('permits'));
    await statement(address, `UPDATE feed_sync.requests SET begun_by = ${request.begunBy}`);
    stop.abort();
    const { exitCode, stderr } = await asking;
    expect([exitCode, stderr]).toEqual([75, expect.stringContaining(request.said)]);
    expect(await requests(address)).toEqual([]);
  });

  it('a command waits for its answer while the database restarts', async () => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 5 });
    const own = await postgresOfTest(EMBEDDED);
    const address = await own.database();
    const environment = { FEED_SYNC_DESTINATION_URL: address, PATH: process.env['PATH'] ?? '' };
    const line = commandLine({ feed, now: () => feed.clock.now(), environment });
    onTestFinished(() => line.remove());
    const { asking } = await askAnother(address, line, datasetOf('permits'));
    await own.restart();
    const refused = {
      kind: 'refused',
      error: 'usage_invalid',
      message: 'Not with the other one.',
      hint: null,
    };
    await statement(
      address,
      `UPDATE feed_sync.requests SET begun_by = 'another', state = 'refused', answer = '${JSON.stringify(refused)}'`,
    );
    const { exitCode, stderr } = await asking;
    expect([exitCode, stderr]).toEqual([64, expect.stringContaining('Not with the other one.')]);
  });
});
