/** F59 any state in which a loss of power may leave the disk opens, holds what was reported, and catches up. */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seededRandom } from '../exploration/random.ts';
import { type OpenCountyFeed, openCountyFeed } from '../support/open-county-feed.ts';
import { SEED } from '../support/seed.ts';
import { NOTHING_LOST } from './disk.ts';
import { faultsOf } from './judge.ts';
import { canRecord, type Recording, record } from './record.ts';
import { type DiskState, drawStates, finalFiles } from './states.ts';

const STATES = 40;
/** Enough that some state fails where a sync that is needed is left out, and nothing that was not synced is there. */
const STATES_WITHOUT = 12;

const isPossible = canRecord();
if (!isPossible) {
  process.stderr.write(
    'States after a loss of power are not tried: this needs Linux and a C compiler (cc).\n',
  );
}

describe.skipIf(!isPossible)('a loss of power', () => {
  let folder: string;
  let county: OpenCountyFeed;
  let recording: Recording;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'feed-sync-power-'));
    county = await openCountyFeed({ kinds: ['zoning', 'permits'], rowsPerDataset: 30 });
    recording = await record(county, folder);
  });

  afterAll(async () => {
    await county.feed.close();
    rmSync(folder, { recursive: true });
  });

  /** The first state that has a fault, and its faults. */
  async function firstFault(states: Iterable<DiskState>): Promise<string | null> {
    for (const state of states) {
      const faults = await faultsOf(state, county.feed);
      if (faults.length > 0) return `moment ${state.moment}, ${state.lost} lost: ${faults.join('; ')}`;
    }
    return null;
  }

  it('F59 is tried on everything that the program did to its files', () => {
    const { home } = recording;
    const there = readdirSync(home, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(home, join(entry.parentPath, entry.name)));
    const recorded = finalFiles(recording, NOTHING_LOST);
    for (const path of there) {
      // SQLite maps its shared memory, which no disk keeps, and writes nothing to it.
      if (!path.endsWith('-shm'))
        expect(recorded.get(path)?.equals(readFileSync(join(home, path))), path).toBe(true);
    }
  });

  it('F59 leaves states that open, hold every reported commit, and catch up, with all or nothing of what was not synced', async () => {
    const next = seededRandom(SEED);
    expect(
      await firstFault(drawStates(recording, { count: STATES, next, lost: ['all', 'nothing'] })),
      `seed ${SEED}`,
    ).toBeNull();
  });

  it.each(['destination.commit', 'destination.publish-settle'])(
    'F59 leaves one that does not where nothing is synced within %s',
    async (without) => {
      const next = seededRandom(SEED);
      expect(
        await firstFault(drawStates(recording, { count: STATES_WITHOUT, next, lost: ['all'], without })),
      ).not.toBeNull();
    },
  );
});
