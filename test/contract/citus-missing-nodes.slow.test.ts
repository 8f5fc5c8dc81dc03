/**
 * Nodes of Citus that are down, or stopped with their connections open, beside work that needs all nodes: recovery, new schemas, rights
 * of readers. Skipped where Citus is not installed.
 */

import { describe, expect, it } from 'vitest';
import { errorCodeOf } from '../../src/model/errors.ts';
import { citusOfTests, HAS_CITUS, OHIO, schemaOf, TEXAS, twoStatesIn } from '../support/citus-states.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { ENROLMENT, errorOf } from '../support/mirror-at-work.ts';
import { PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { openDatabase } from '../support/postgres-destination.ts';

const COMMITTED = { kind: 'committed' };
const NEW_MEXICO = 'us-nm-parcels';
const MORE = [...THREE_PEOPLE, [4, 'four']] as const;

describe.skipIf(!HAS_CITUS)('missing nodes of Citus', () => {
  const cluster = citusOfTests();

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
});
