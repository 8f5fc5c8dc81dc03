/** `feed-sync once`, killed at moments of its work: whatever was done by then, the next one ends equal. */

import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { randomFrom } from '../../fixtures/source/random.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectMirrored, once } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';

const SEED = 20_261_120;
const KILLS = 10;
/** From before the first call to after the last commit, on a machine that is not busy. */
const WORK_MS = 1_200;

describe('SIGKILL', () => {
  it(`at ${KILLS} moments of seed ${SEED}`, async () => {
    const { feed, datasetIds, publishNext } = await countyFeed({ counties: 2 });
    await feed.prepareSnapshots();
    const installed = await program({ feed });
    const random = randomFrom(SEED);
    const killed: boolean[] = [];
    for (let kill = 0; kill < KILLS; kill += 1) {
      const running = installed.start('once');
      await sleep(random.integer(150, WORK_MS));
      running.kill('SIGKILL');
      killed.push((await running.ended).signal === 'SIGKILL');
      if (kill % 2 === 1) for (const datasetId of datasetIds) publishNext(datasetId);
    }
    expect(killed).toContain(true);
    await once(installed);
    await expectMirrored(installed, feed);
    expect((await once(installed)).stdout).toContain('0 loaded, 9 already up to date');
  });
});
