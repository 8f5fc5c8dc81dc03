/** Tables of people of two states in a database with Citus, whose schemas are on two nodes. */

import process from 'node:process';
import { afterAll, beforeAll } from 'vitest';
import { CITUS, type CitusCluster, startCitus } from '../../fixtures/citus-cluster.ts';
import type { PostgresServer } from '../../fixtures/postgres-server.ts';
import type { PostgresOptions } from '../../src/destination/postgres/destination.ts';
import { present } from '../../src/lib/assert.ts';
import { firstContent, type PublishedCourse } from './duckdb-changes.ts';
import { ENROLMENT } from './mirror-at-work.ts';
import { ALL_HISTORY, PEOPLE, THREE_PEOPLE } from './people.ts';
import { type DatabaseAtWork, databaseAtWork } from './postgres-destination.ts';

export const TEXAS = 'us-tx-parcels';
export const OHIO = 'us-oh-parcels';

export const HAS_CITUS = CITUS.folder !== null;
if (!HAS_CITUS) process.stderr.write('SKIPPED: Citus is not installed.\n');

/** Each state has a schema: `us_tx`. */
export function schemaOf(datasetId: string): string {
  return datasetId.slice(0, 5).replaceAll('-', '_');
}

/** Starts a cluster before the tests of the group, and stops it after them. */
export function citusOfTests(): () => CitusCluster {
  let cluster: CitusCluster | null = null;
  beforeAll(async () => {
    cluster = await startCitus();
  });
  afterAll(async () => {
    await cluster?.stop();
  });
  return () => present(cluster, 'the cluster runs');
}

export interface TwoStates {
  readonly world: DatabaseAtWork;
  readonly texas: PublishedCourse;
  readonly ohio: PublishedCourse;
  /** The worker that has the schema. */
  node(schema: string): Promise<PostgresServer>;
}

/** Loads three people of each state in a database of their own. Texas is in `us_tx`, Ohio in `us_oh`. */
export async function twoStatesIn(
  cluster: CitusCluster,
  options: Partial<PostgresOptions> = {},
): Promise<TwoStates> {
  const address = await cluster.database();
  const world = await databaseAtWork(address, {
    schemaOf,
    history: ALL_HISTORY,
    lockWaitMs: 3_000,
    ...options,
  });
  await world.destination.enroll({ ...ENROLMENT, datasetIds: [TEXAS, OHIO] });
  const texas = await world.loaded(firstContent(PEOPLE, THREE_PEOPLE), TEXAS);
  const ohio = await world.loaded(firstContent(PEOPLE, THREE_PEOPLE), OHIO);
  return {
    world,
    texas,
    ohio,
    async node(schema) {
      const [[home = ''] = []] = await world.byHand(
        `SELECT DISTINCT nodename FROM citus_shards WHERE starts_with(table_name::text, '${schema}.')`,
      );
      return present(
        cluster.workers.find((one) => one.home === home),
        'a worker has the schema',
      );
    },
  };
}
