/**
 * A database with Citus: a coordinator and two workers, which come and go. Each dataset has a schema on one node. Skipped where Citus is
 * not installed.
 */

import { describe, expect, it, vi } from 'vitest';
import { addressIn, type PostgresServer, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { errorCodeOf } from '../../src/model/errors.ts';
import { citusOfTests, HAS_CITUS, OHIO, TEXAS, twoStatesIn } from '../support/citus-states.ts';
import { firstContent, type PublishedCourse } from '../support/duckdb-changes.ts';
import { ENROLMENT, errorOf } from '../support/mirror-at-work.ts';
import { OWNERS, PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { type DatabaseAtWork, openReaderOf } from '../support/postgres-destination.ts';

const COMMITTED = { kind: 'committed' };

describe.skipIf(!HAS_CITUS)('a database whose schemas Citus distributes', () => {
  const cluster = citusOfTests();
  const twoStates = () => twoStatesIn(cluster());

  const rowsOf = (world: DatabaseAtWork, table: string) =>
    world.byHand(`SELECT id, name FROM ${table} ORDER BY id`);
  const commitsOf = (world: DatabaseAtWork, datasetId: string) =>
    world.byHand(
      `SELECT to_version FROM feed_sync.commits WHERE dataset_id = '${datasetId}' ORDER BY commit_number`,
    );

  function publish(course: PublishedCourse, ...rows: readonly Row[]): void {
    course.publishRows([...THREE_PEOPLE, ...rows]);
  }

  it('puts each dataset into the schema of its state, with its log, its stage and its retired tables', async () => {
    const { world, texas, node } = await twoStates();
    expect(await node('us_tx')).not.toBe(await node('us_oh'));
    publish(texas, [4, 'four']);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    expect(await world.retire(texas, 'archive')).toMatchObject({
      kind: 'retired',
      table: expect.stringMatching(/^us_tx\.us_tx_parcels__2_/),
    });
    const schemas = await world.byHand(
      `SELECT n.nspname, count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind = 'r' AND n.nspname IN ('us_tx', 'us_oh', 'archived', 'history', 'feeds') GROUP BY 1 ORDER BY 1`,
    );
    expect(schemas).toEqual([
      ['feeds', '1'],
      ['us_oh', '4'],
      ['us_tx', '3'],
    ]);
    expect(await world.load(texas)).toMatchObject(COMMITTED);
    expect(await rowsOf(world, 'us_tx.us_tx_parcels')).toHaveLength(4);
    const reader = await openReaderOf(world.address);
    const { rows } = await reader.query(
      'SELECT count(*) FROM us_tx_parcels UNION ALL SELECT count(*) FROM us_oh_parcels',
    );
    const counts = [];
    for await (const row of rows) counts.push(row.map(String));
    expect(counts.toSorted()).toEqual([['3'], ['4']]);
    expect(await reader.bytes?.()).toBeGreaterThan(100_000);
  });

  it('gives tables names of at most 50 bytes, because nodes put a number behind them', async () => {
    const { world } = await twoStates();
    const datasetIds = ['a', 'b'].map((end) => `us-tx-${'x'.repeat(60)}-${end}`);
    await world.destination.enroll({ ...ENROLMENT, datasetIds });
    for (const datasetId of datasetIds) await world.loaded(firstContent(PEOPLE, THREE_PEOPLE), datasetId);
    const { datasets } = await world.destination.has();
    const names = datasetIds.map((datasetId) => datasets.get(datasetId)?.tableName ?? '');
    expect(names.map((name) => name.length)).toEqual([50, 50]);
    expect(new Set(names).size).toBe(2);
    for (const name of names) expect(await rowsOf(world, `us_tx.${name}`)).toHaveLength(3);
  });

  it('commits rows to the nodes that are there while another one is down, and to that once it is back', async () => {
    const { world, texas, ohio, node } = await twoStates();
    const worker = await node('us_oh');
    await worker.kill();
    try {
      publish(texas, [4, 'four']);
      publish(ohio, [4, 'four']);
      expect(await world.apply(texas)).toMatchObject(COMMITTED);
      expect(errorCodeOf(errorOf(await world.apply(ohio)))).toBe('node_unavailable');
      publish(texas, [4, 'four'], [5, 'five']);
      expect(await world.apply(texas)).toMatchObject(COMMITTED);
      texas.publish(firstContent(OWNERS, [[1, 'Ann']]));
      expect(errorCodeOf(errorOf(await world.load(texas)))).toBe('node_unavailable');
      expect(await rowsOf(world, 'us_tx.us_tx_parcels')).toHaveLength(5);
    } finally {
      await worker.start();
    }
    expect(await world.apply(ohio)).toMatchObject(COMMITTED);
    expect(await world.load(texas)).toMatchObject(COMMITTED);
    expect(await rowsOf(world, 'us_oh.us_oh_parcels')).toHaveLength(4);
    expect(await world.byHand('SELECT owner FROM us_tx.us_tx_parcels')).toEqual([['Ann']]);
  });

  /** Lets commits on a server wait for a standby that is not there. */
  async function awaitStandby({ home }: PostgresServer, isAwaited: boolean): Promise<void> {
    const address = addressIn(home, 'postgres');
    const change = isAwaited ? "SET synchronous_standby_names = 'nobody'" : 'RESET synchronous_standby_names';
    await statement(address, `ALTER SYSTEM ${change}`);
    await statement(address, 'SELECT pg_reload_conf()');
  }

  /** Resolves when something is prepared on the server. */
  async function prepared({ home }: PostgresServer): Promise<void> {
    const count = () => statement(addressIn(home, 'postgres'), 'SELECT count(*) FROM pg_prepared_xacts');
    await vi.waitUntil(async () => (await count())[0]?.[0] === '1', { timeout: 30_000, interval: 20 });
  }

  it('F74 a worker that is lost before it learns of a commit has it after its return', async () => {
    const { world, texas, node } = await twoStates();
    const { coordinator } = cluster();
    const worker = await node('us_tx');
    publish(texas, [4, 'four']);
    await awaitStandby(coordinator, true);
    const applied = world.apply(texas);
    await prepared(worker);
    await worker.kill();
    await awaitStandby(coordinator, false);
    const committed = await applied;
    await worker.start();
    expect(committed).toMatchObject(COMMITTED);
    expect(await commitsOf(world, TEXAS)).toEqual([['1'], ['2']]);
    expect(await rowsOf(world, 'us_tx.us_tx_parcels')).toHaveLength(3);
    const reader = await openReaderOf(world.address);
    const counted = () => reader.count([TEXAS], () => true);
    await expect(counted()).rejects.toMatchObject({ code: 'destination_unavailable' });
    publish(texas, [4, 'four'], [5, 'five']);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    expect(await commitsOf(world, TEXAS)).toEqual([['1'], ['2'], ['3']]);
    expect(await rowsOf(world, 'us_tx.us_tx_parcels')).toHaveLength(5);
    expect(await counted()).toMatchObject([{ table: { rowCount: 5, hasRecordedChecksum: true } }]);
  });

  it('F74 a worker that is lost while it prepares a commit has nothing of it after its return', async () => {
    const { world, texas, node } = await twoStates();
    const worker = await node('us_tx');
    publish(texas, [4, 'four']);
    await awaitStandby(worker, true);
    const applied = world.apply(texas);
    await prepared(worker);
    await worker.kill();
    const lost = await applied;
    await worker.start();
    await awaitStandby(worker, false);
    expect(errorCodeOf(errorOf(lost))).toBe('node_unavailable');
    expect(await commitsOf(world, TEXAS)).toEqual([['1']]);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    expect(await commitsOf(world, TEXAS)).toEqual([['1'], ['2']]);
    expect(await rowsOf(world, 'us_tx.us_tx_parcels')).toHaveLength(4);
  });

  it('F74 a node that is stopped and keeps its connections holds up its own commits alone', async () => {
    const { world, texas, ohio, node } = await twoStatesIn(cluster(), { leaseMs: 3_000 });
    const worker = await node('us_oh');
    publish(texas, [4, 'four']);
    publish(ohio, [4, 'four']);
    await worker.suspend();
    try {
      const [stopped, other] = await Promise.all([world.apply(ohio), world.apply(texas)]);
      expect(errorCodeOf(errorOf(stopped))).toBe('node_unavailable');
      expect(other).toMatchObject(COMMITTED);
      publish(texas, [4, 'four'], [5, 'five']);
      expect(await world.apply(texas)).toMatchObject(COMMITTED);
      expect(errorCodeOf(errorOf(await world.apply(ohio)))).toBe('node_unavailable');
    } finally {
      await worker.resume();
    }
    const applied = async () => (await world.apply(ohio)).kind === 'committed';
    await vi.waitUntil(applied, { timeout: 90_000, interval: 1_000 });
    expect(await rowsOf(world, 'us_oh.us_oh_parcels')).toHaveLength(4);
    expect(await commitsOf(world, OHIO)).toEqual([['1'], ['2']]);
    expect(await commitsOf(world, TEXAS)).toEqual([['1'], ['2'], ['3']]);
  });

  it('a schema moves to another node while its tables are followed', async () => {
    const { world, texas, node } = await twoStates();
    const [from, to] = [await node('us_tx'), await node('us_oh')];
    const move = statement(
      world.address,
      `SELECT citus_schema_move('us_tx', '${to.home}', 5432, 'force_logical')`,
    );
    let isMoved = false;
    const ended = (): void => {
      isMoved = true;
    };
    move.then(ended, ended);
    let id = 3;
    while (!isMoved || id < 10) {
      id += 1;
      publish(texas, [id, 'more']);
      expect(await world.apply(texas)).toMatchObject(COMMITTED);
    }
    await move;
    expect(await node('us_tx')).toBe(to);
    expect(from).not.toBe(to);
    expect((await commitsOf(world, TEXAS)).length).toBe(id - 2);
    expect(await rowsOf(world, 'us_tx.us_tx_parcels')).toHaveLength(4);
  });
});
