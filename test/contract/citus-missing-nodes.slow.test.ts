/**
 * Nodes of Citus that are down, or stopped with their connections open, beside work that needs all nodes: recovery, new schemas, rights
 * of readers. Skipped where Citus is not installed.
 */

import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { addressIn } from '../../fixtures/postgres-server.ts';
import { present } from '../../src/lib/assert.ts';
import { errorCodeOf } from '../../src/model/errors.ts';
import { citusOfTests, HAS_CITUS, OHIO, schemaOf, TEXAS, twoStatesIn } from '../support/citus-states.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { ENROLMENT, errorOf } from '../support/mirror-at-work.ts';
import { eventually } from '../support/patience.ts';
import { ALL_HISTORY, PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { databaseAtWork, openDatabase, openReaderOf } from '../support/postgres-destination.ts';

const COMMITTED = { kind: 'committed' };
const NEW_MEXICO = 'us-nm-parcels';
const MORE = [...THREE_PEOPLE, [4, 'four']] as const;

describe.skipIf(!HAS_CITUS)('missing nodes of Citus', () => {
  const cluster = citusOfTests();

  it('F73 another instance takes over where a session of the first waits for a silent node', async () => {
    const { world, texas, ohio, node } = await twoStatesIn(cluster());
    const worker = await node('us_oh');
    for (const course of [texas, ohio]) course.publishRows(MORE);
    await worker.suspend();
    const stuck = world.apply(ohio);
    try {
      const waits = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
        AND starts_with(query, 'DELETE FROM "us_oh"')`;
      await eventually(async () => expect(await world.byHand(waits)).toHaveLength(1));
      await world.byHand('UPDATE feed_sync.lease SET expires_at = clock_timestamp()');
      const second = await databaseAtWork(world.address, { schemaOf, history: ALL_HISTORY });
      const course = second.published(firstContent(PEOPLE, MORE), TEXAS);
      expect(await second.load(course)).toMatchObject(COMMITTED);
      expect(await world.byHand('SELECT count(*) FROM us_tx.us_tx_parcels')).toEqual([['4']]);
      // So does a third, and the one before finds out.
      await world.byHand('UPDATE feed_sync.lease SET expires_at = clock_timestamp()');
      const third = await databaseAtWork(world.address, { schemaOf, history: ALL_HISTORY });
      const again = third.published(firstContent(PEOPLE, THREE_PEOPLE), TEXAS);
      expect(await third.load(again)).toMatchObject(COMMITTED);
      expect(errorCodeOf(errorOf(await second.load(course)))).toBe('instance_running');
    } finally {
      await worker.resume();
    }
    expect((await stuck).kind).toBe('failed');
    expect(errorCodeOf(errorOf(await world.apply(ohio)))).toBe('instance_running');
    expect(await world.byHand('SELECT count(*) FROM us_oh.us_oh_parcels')).toEqual([['3']]);
  });

  it('F74 a commit to a node that is lost ends in time beside another node that is silent', async () => {
    const { world, texas, ohio, node } = await twoStatesIn(cluster());
    const [lost, silent] = [await node('us_tx'), await node('us_oh')];
    // The session gets connections to both.
    for (const course of [texas, ohio]) {
      course.publishRows(MORE);
      expect(await world.apply(course)).toMatchObject(COMMITTED);
    }
    texas.publishRows(THREE_PEOPLE);
    await silent.suspend();
    await lost.kill();
    try {
      expect(errorCodeOf(errorOf(await world.apply(texas)))).toBe('node_unavailable');
    } finally {
      await lost.start();
      await silent.resume();
    }
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    expect(await world.byHand('SELECT count(*) FROM us_tx.us_tx_parcels')).toEqual([['3']]);
  });

  it('F74 a dataset whose schema cannot be made while a node is down waits alone, and so does a right of a reader', async () => {
    const { world, texas, node } = await twoStatesIn(cluster());
    const worker = await node('us_oh');
    const datasetIds = [TEXAS, OHIO, NEW_MEXICO];
    const mexico = world.published(firstContent(PEOPLE, THREE_PEOPLE), NEW_MEXICO);
    texas.publishRows(MORE);
    await world.byHand('DROP ROLE IF EXISTS late_reader');
    await world.byHand('CREATE ROLE late_reader');
    await worker.kill();
    try {
      await world.destination.enroll({ ...ENROLMENT, datasetIds });
      expect(errorCodeOf(errorOf(await world.load(mexico)))).toBe('node_unavailable');
      expect(await world.apply(texas)).toMatchObject(COMMITTED);
      const reader = await openReaderOf(world.address);
      expect(await reader.bytes?.()).toBeNull();
      expect((await reader.observed()).datasets.size).toBe(2);
      await world.destination.close();
      const again = await openDatabase(world.address, world.folder, { schemaOf, readers: ['late_reader'] });
      expect((await again.has()).datasets.get(TEXAS)).toMatchObject({ version: 2 });
      await again.close();
    } finally {
      await worker.start();
    }
    const later = await openDatabase(world.address, world.folder, { schemaOf, readers: ['late_reader'] });
    await later.enroll({ ...ENROLMENT, datasetIds });
    await later.close();
    const mayRead = "SELECT has_table_privilege('late_reader', 'us_oh.us_oh_parcels', 'SELECT')";
    expect(await world.byHand(mayRead)).toEqual([['t']]);
    expect(await world.byHand("SELECT to_regnamespace('us_nm') IS NOT NULL")).toEqual([['t']]);
  });

  it('F74 a first load goes on where the coordinator was lost in an earlier one, and a new schema waits for a node that was replaced', async () => {
    const { world, texas, node } = await twoStatesIn(cluster());
    const permits = 'us-tx-permits';
    await world.destination.enroll({ ...ENROLMENT, datasetIds: [TEXAS, permits] });
    const course = world.published(firstContent(PEOPLE, THREE_PEOPLE), permits);
    // What the node has prepared of a commit that is none.
    const { home } = await node('us_tx');
    const [[shard] = []] = await world.byHand(
      `SELECT shard_name FROM citus_shards WHERE table_name = 'us_tx."feed_sync~states"'::regclass`,
    );
    const database = present(/@\/(\w+)/.exec(world.address)?.[1], 'it has a database');
    const client = new pg.Client({ connectionString: addressIn(home, database) });
    await client.connect();
    await client.query(
      `BEGIN; INSERT INTO ${shard} VALUES ('${permits}', 99); PREPARE TRANSACTION 'citus_0_99_99_0'`,
    );
    await client.end();
    expect(await world.load(course)).toMatchObject(COMMITTED);
    // So is a node that has just taken the place of another.
    await world.byHand('UPDATE pg_dist_node SET metadatasynced = false');
    const mexico = world.published(firstContent(PEOPLE, THREE_PEOPLE), NEW_MEXICO);
    await world.destination.enroll({ ...ENROLMENT, datasetIds: [TEXAS, permits, NEW_MEXICO] });
    expect(errorCodeOf(errorOf(await world.load(mexico)))).toBe('node_unavailable');
    texas.publishRows(MORE);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
  });
});
