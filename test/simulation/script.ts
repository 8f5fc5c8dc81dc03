/** A history that is written down instead of drawn: what once went wrong, in as few steps as it takes. */

import { randomFrom } from '../../fixtures/source/random.ts';
import { Counters } from './counters.ts';
import { modelStage } from './model/model-stage.ts';
import { refuseBroken, watchCommits } from './rules.ts';
import { type Settings, settingsOf } from './settings.ts';
import { SIMULATED } from './simulate/simulated.ts';
import { World } from './world.ts';

const SEED = 1;

/** Two datasets, both in the subscription `sub_1`. */
export interface Script {
  readonly world: World;
  readonly first: string;
  readonly second: string;
}

/** Plays the script on the model stage. @throws Error with the steps if a rule is broken. */
export async function playScript(
  changed: Partial<Settings>,
  script: (script: Script) => Promise<void>,
): Promise<void> {
  const drawn = settingsOf(randomFrom(SEED, 0), SIMULATED.extent);
  const settings: Settings = {
    ...drawn,
    manifest: 'subscription',
    manifestLastEventId: true,
    recordLastEventId: true,
    sha256: true,
    unknownPosition: 'taken',
    subscriptions: 1,
    removedDatasets: 'drop',
    kinds: ['parcels', 'permits'],
    counties: [3],
    eventsPerPage: 100,
    ...changed,
  };
  const stage = await modelStage(SEED, settings);
  const world = new World(SEED, settings, stage, new Counters());
  try {
    watchCommits(world);
    const [first = '', second = ''] = world.datasetIds;
    await script({ world, first, second });
    refuseBroken(world);
  } catch (error) {
    const [broken = error] = world.broken;
    throw new Error(`${broken instanceof Error ? broken.message : broken}\n${world.reported.join('\n')}`, {
      cause: error,
    });
  } finally {
    await stage.close();
  }
}
