/**
 * Commits to schemas that Citus distributes, while sessions and servers are lost at random moments: `CITUS_COMMITS=300` for so many,
 * without which nothing is played; `CITUS_SEED=7` for other moments. Skipped where Citus is not installed.
 */

import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { addressIn, type PostgresServer, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { type Random, randomFrom } from '../../fixtures/source/random.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import { present } from '../../src/lib/assert.ts';
import { errorCodeOf } from '../../src/model/errors.ts';
import { citusOfTests, HAS_CITUS, twoStatesIn } from '../support/citus-states.ts';
import { THREE_PEOPLE } from '../support/people.ts';
import type { DatabaseAtWork } from '../support/postgres-destination.ts';

const COMMITTED = { kind: 'committed' };
const COMMITS = Number(process.env['CITUS_COMMITS'] ?? 0);
const SEED = Number(process.env['CITUS_SEED'] ?? 1);

describe.skipIf(!HAS_CITUS || COMMITS === 0)('nodes of Citus that are lost at any moment', () => {
  const cluster = citusOfTests();

  const rowsOf = (world: DatabaseAtWork, schema: string) =>
    world.byHand(`SELECT id, name FROM ${schema}.${schema}_parcels ORDER BY id`);

  /** Ends the sessions of clients on the server. */
  async function endSessions({ home }: PostgresServer, database: string): Promise<void> {
    const ended = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type';
    await statement(
      addressIn(home, 'postgres'),
      `${ended} = 'client backend' AND datname = '${database}' AND pid <> pg_backend_pid()`,
    );
  }

  /** Ends sessions on the node or on the coordinator, or the node, or nothing. */
  async function lose(worker: PostgresServer, database: string, random: Random): Promise<void> {
    const [waitMs, kind] = [random.fraction() * 120, random.fraction()];
    await sleep(waitMs);
    if (kind < 0.6) await endSessions(worker, database);
    else if (kind < 0.75) await endSessions(cluster().coordinator, database);
    else if (kind < 0.9) {
      await worker.kill();
      await worker.start();
    }
  }

  /** Returns the kind of a result, and of an error its code and what it says. */
  async function resultOf(applied: Promise<JobResult>): Promise<string> {
    const result = await applied.catch((error: unknown) => error as Error);
    const failed = result instanceof Error ? result : result.kind === 'failed' ? result.error : null;
    return failed === null ? 'committed' : `${errorCodeOf(failed)}: ${failed.message}`;
  }

  it(`F74 no commit is lost or doubled, whatever is lost (seed ${SEED})`, {
    timeout: 1_200_000,
  }, async () => {
    process.stderr.write(`CITUS_SEED=${SEED} CITUS_COMMITS=${COMMITS}\n`);
    const random = randomFrom(SEED);
    const { world, texas, ohio, node } = await twoStatesIn(cluster());
    const database = present(/@\/(\w+)/.exec(world.address)?.[1], 'it has a database');
    const courses = [texas, ohio];
    const rows: Row[][] = [[...THREE_PEOPLE], [...THREE_PEOPLE]];
    const results: string[] = [];
    for (let commit = 0; commit < COMMITS; commit += 1) {
      const which = commit % 2;
      const course = present(courses[which], 'two');
      const own = present(rows[which], 'two');
      own.push([commit + 4, `n${commit}`]);
      course.publishRows([...own]);
      const worker = await node(which === 0 ? 'us_tx' : 'us_oh');
      const [result] = await Promise.all([resultOf(world.apply(course)), lose(worker, database, random)]);
      results.push(result);
    }
    for (const [which, schema] of ['us_tx', 'us_oh'].entries()) {
      const course = present(courses[which], 'two');
      if ((await world.observed(course.datasetId)).version !== course.newest().version)
        expect(await world.apply(course)).toMatchObject(COMMITTED);
      const expected = present(rows[which], 'two').map((row) => row.map(String));
      expect(await rowsOf(world, schema)).toEqual(expected);
    }
    const commits = await world.byHand(
      'SELECT from_version = lag(to_version) OVER (PARTITION BY dataset_id ORDER BY commit_number) FROM feed_sync.commits',
    );
    expect(commits.filter(([isNext]) => isNext === 'false')).toEqual([]);
    const odd = results.filter(
      (result) => !/^(?:committed|node_unavailable|destination_unavailable)/.test(result),
    );
    expect(odd).toEqual([]);
  });
});
