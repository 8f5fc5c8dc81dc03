/** Schemas of tables in PostgreSQL, by the rules of destination.schemas. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import { localInstallation } from '../support/local-installation.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const TRAVIS = 'us-tx-travis-parcels';
const LAKEWAY = 'us-tx-lakeway-parcels';
const PERMITS = 'us-az-pima-permits';
const RULES = '{datasets: "us-tx-*-parcels", schema: "texas"}, {datasets: "us-*-*-*", schema: "us_{1}_{2}"}';

describe.skipIf(EMBEDDED.folder === null)(`destination.schemas with ${EMBEDDED.name}`, () => {
  const server = postgresOfTests(EMBEDDED);

  async function installed(...datasetIds: readonly string[]) {
    const feed = await startedFeed();
    publishSmall(feed, datasetIds);
    const address = await server.database();
    const { home, run } = localInstallation({
      feed,
      environment: {
        FEED_SYNC_LOG_LEVEL: 'warn',
        FEED_SYNC_LOG_FORMAT: 'json',
        FEED_SYNC_DESTINATION_URL: address,
        PATH: process.env['PATH'] ?? '',
      },
    });
    return {
      feed,
      address,
      run,
      /** Writes the rules into the file of settings. */
      configure(rules: string): void {
        const text = rules === '' ? '' : `destination: {schemas: [${rules}]}\n`;
        writeFileSync(join(home, 'feed-sync.yaml'), text);
      },
      async once(): Promise<void> {
        await feed.prepareSnapshots();
        const { exitCode, stderr } = await run('once');
        expect(exitCode, stderr).toBe(0);
      },
      /** The tables of the mirror as the catalog has them, each of which is there. */
      async places(): Promise<readonly string[]> {
        const rows = await statement(
          address,
          `SELECT schema_name || '.' || table_name, to_regclass(schema_name || '.' || table_name) IS NOT NULL
            FROM feed_sync.datasets ORDER BY 1`,
        );
        expect(rows.filter(([, isThere]) => isThere !== 't')).toEqual([]);
        return rows.map(([place]) => String(place));
      },
    };
  }

  it('tables are in the schemas that destination.schemas says at their first load, and doctor names the others', async () => {
    const { configure, once, places, run, feed } = await installed(TRAVIS, PERMITS);
    configure('');
    await once();
    expect(await places()).toEqual(['feeds.us_az_pima_permits', 'feeds.us_tx_travis_parcels']);
    configure(RULES);
    publishSmall(feed, [LAKEWAY]);
    await once();
    expect(await places()).toEqual([
      'feeds.us_az_pima_permits',
      'feeds.us_tx_travis_parcels',
      'texas.us_tx_lakeway_parcels',
    ]);
    const { stdout } = await run('doctor');
    expect(stdout).toMatch(
      new RegExp(
        `ok +schemas +the tables of 2 datasets are in other schemas than destination.schemas says: ${PERMITS} \\(in feeds, not us_az_pima\\), ${TRAVIS} \\(in feeds, not texas\\)`,
      ),
    );
    expect(await run('verify')).toMatchObject({ exitCode: 0 });
  });
});
