/**
 * Two daemons as processes on one database with Citus, which are killed and stopped at random moments while servers are, too:
 * `CITUS_FAULTS=16` for so many faults, without which nothing is played; `CITUS_SEED=7` for other moments. Skipped where Citus is not
 * installed.
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { CitusCluster } from '../../fixtures/citus-cluster.ts';
import { PASSWORD, statement } from '../../fixtures/postgres-server.ts';
import { type Random, randomFrom } from '../../fixtures/source/random.ts';
import { present } from '../../src/lib/assert.ts';
import { citusOfTests, HAS_CITUS } from '../support/citus-states.ts';
import { type CountyFeed, countyFeed } from '../support/county-feed.ts';
import { LastingDaemon } from '../support/lasting-daemon.ts';
import { LivelyFeed } from '../support/lively-feed.ts';
import { eventually } from '../support/patience.ts';
import { type Program, program } from '../support/program.ts';

const FAULTS = Number(process.env['CITUS_FAULTS'] ?? 0);
const SEED = Number(process.env['CITUS_SEED'] ?? 1);
const DAEMONS = 2;
const BEFORE_A_FAULT_MS = 4_000;
/** Longer than the lease. */
const FAULT_MS = 10_000;
const LEASE = '5s';

type Act = (cluster: CitusCluster, daemon: LastingDaemon, random: Random) => Promise<void>;

const ACTS: readonly Act[] = [
  async (_cluster, daemon, random) => {
    daemon.signal('SIGKILL');
    await daemon.ended();
    await sleep(random.fraction() * FAULT_MS);
  },
  async (_cluster, daemon, random) => {
    daemon.signal('SIGSTOP');
    await sleep(random.fraction() * FAULT_MS);
    daemon.signal('SIGCONT');
  },
  async ({ coordinator }) => {
    await coordinator.kill();
    await coordinator.start();
  },
  async ({ workers }, _daemon, random) => {
    const worker = random.pick(workers);
    await worker.kill();
    await sleep((random.fraction() * FAULT_MS) / 2);
    await worker.start();
  },
  async ({ workers }, daemon, random) => {
    const worker = random.pick(workers);
    await worker.suspend();
    await sleep((random.fraction() * FAULT_MS) / 4);
    daemon.signal('SIGKILL');
    await daemon.ended();
    await sleep(random.fraction() * FAULT_MS);
    await worker.resume();
  },
];

/** Starts again each daemon that has ended: a woken one ends by itself. */
async function restart(daemons: readonly LastingDaemon[]): Promise<void> {
  for (const daemon of daemons)
    if ((await Promise.race([daemon.ended(), sleep(0, null)])) !== null) await daemon.startAgain();
}

async function installedAt(address: string, { feed }: CountyFeed): Promise<Program> {
  const environment = {
    FEED_SYNC_DESTINATION_URL: address,
    FEED_SYNC_DESTINATION_LEASE: LEASE,
    FEED_SYNC_POLL_EVERY: '1s',
    FEED_SYNC_LOCK_WAIT: LEASE,
    FEED_SYNC_HISTORY_DATASETS: '*parcels',
  };
  const installed = await program({ feed, environment, secrets: [PASSWORD] });
  const rules = 'destination: {schemas: [{datasets: "us-*-*-*", schema: "us_{1}_{2}"}]}\n';
  writeFileSync(join(installed.home, 'work', 'feed-sync.yaml'), rules);
  return installed;
}

/** Each commit begins at the version that the one before has left. */
async function expectChains(address: string): Promise<void> {
  const commits = await statement(
    address,
    `SELECT dataset_id, from_version, lag(to_version) OVER (PARTITION BY dataset_id ORDER BY commit_number), to_version
      FROM feed_sync.commits`,
  );
  expect(commits.filter(([, from, before]) => from !== before)).toEqual([]);
}

describe.skipIf(!HAS_CITUS || FAULTS === 0)('daemons on a database with Citus', () => {
  const cluster = citusOfTests();

  it(`F73 F74 no version is lost, doubled or older, whatever is killed or stopped (seed ${SEED})`, {
    timeout: 1_800_000,
  }, async () => {
    process.stderr.write(`CITUS_SEED=${SEED} CITUS_FAULTS=${FAULTS}\n`);
    const random = randomFrom(SEED);
    const county = await countyFeed({ counties: 4, kinds: ['permits', 'parcels'], rowsPerDataset: 100 });
    const address = await cluster().database();
    const installations: Program[] = [];
    for (let each = 0; each < DAEMONS; each += 1) installations.push(await installedAt(address, county));
    const daemons = installations.map((installed) => new LastingDaemon(installed));
    const lively = new LivelyFeed(county, random);
    for (let fault = 0; fault < FAULTS; fault += 1) {
      lively.publish(8);
      await county.feed.prepareSnapshots();
      await sleep(random.fraction() * BEFORE_A_FAULT_MS);
      await random.pick(ACTS)(cluster(), random.pick(daemons), random);
      await restart(daemons);
    }
    const newest = county.datasetIds.map((id) => [
      id,
      county.feed.store.dataset(id).versions.at(-1)?.version,
    ]);
    await eventually(async () => {
      await restart(daemons);
      const found = await statement(address, 'SELECT dataset_id, version FROM feed_sync.datasets');
      expect(new Map(found.map(([id, version]) => [String(id), Number(version)]))).toEqual(
        new Map(newest as []),
      );
    }, 300);
    await expectChains(address);
    for (const daemon of daemons) await daemon.stop();
    expect(await present(installations[0], 'two').run('verify', '--deep')).toMatchObject({ exitCode: 0 });
  });
});
