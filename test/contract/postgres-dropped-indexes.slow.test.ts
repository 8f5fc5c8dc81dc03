/** F76: a catalog whose indexes somebody has dropped is written all the same: no statement needs one. */

import { expect, it, onTestFinished } from 'vitest';
import { EMBEDDED } from '../../fixtures/postgres-server.ts';
import { present } from '../../src/lib/assert.ts';
import type { Candidate } from '../../src/model/candidate.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { databaseAtWork, openDatabase } from '../support/postgres-destination.ts';
import { postgresOfTest } from '../support/postgres-of-tests.ts';
import { column } from '../support/small-content.ts';

it.skipIf(EMBEDDED.folder === null)(
  'F76 takes the lease, stores requests and keeps candidates without their primary keys',
  async () => {
    const server = await postgresOfTest(EMBEDDED);
    const world = await databaseAtWork(await server.database());
    await world.loaded(firstContent(sourceSchema([column('id', 'integer', false)]), [[1]]));
    await world.destination.close();
    for (const table of ['lease', 'requests', 'candidates'])
      await world.byHand(`ALTER TABLE feed_sync.${table} DROP CONSTRAINT ${table}_pkey`);
    const again = await openDatabase(world.address, world.folder);
    onTestFinished(() => again.close());
    const requests = present(again.requests, 'a database has requests');
    const asked = { requestId: 'one', datasetId: 'parcels', command: 'resync', parameters: {} };
    for (const now of [new Date(), new Date()]) await requests.ask(asked, now);
    expect(await world.byHand('SELECT request_id FROM feed_sync.requests')).toEqual([['one']]);
    const candidates = present(again.candidates, 'a database has candidates');
    const candidate = {
      datasetId: 'parcels',
      version: 2,
      judged: { digest: 'a' },
      since: new Date(),
      approvedAt: null,
    };
    for (const version of [2, 3]) await candidates.keep({ ...candidate, version } as unknown as Candidate);
    expect(await world.byHand('SELECT version FROM feed_sync.candidates')).toEqual([['3']]);
    await world.byHand('DELETE FROM feed_sync.lease');
    await again.close();
    await (await openDatabase(world.address, world.folder)).close();
    expect(await world.byHand('SELECT epoch FROM feed_sync.lease')).toEqual([['1']]);
  },
);
