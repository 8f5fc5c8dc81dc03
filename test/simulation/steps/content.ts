/** Snapshots on their way: links that have expired, files that are damaged, content that changes while it downloads. */

import type { PlainAct } from '../../../fixtures/feed/faults.ts';
import { catchUp } from '../catch-up.ts';
import { hasMembers } from '../feed-changes.ts';
import type { Step } from '../step.ts';
import type { World } from '../world.ts';

const EXPIRED: PlainAct = { kind: 'respond', status: 403 };
const DAMAGED: PlainAct = { kind: 'flipBit', atByte: 20 };
/** Fewer than the program tries, so that it gets over them. */
const FEW = 2;
/** More than it tries. */
const MANY = 8;

/** What becomes of a single range of a file that comes in ranges. */
const OF_A_RANGE: readonly PlainAct[] = [
  ...[403, 416, 429, 500, 503].map((status) => ({ kind: 'respond', status }) as const),
  { kind: 'ignoreRange' },
  { kind: 'truncate', afterBytes: 100 },
  { kind: 'reset' },
  { kind: 'reset', afterBytes: 100 },
  { kind: 'flipBit', atByte: 20 },
  { kind: 'etag', etag: '"another"' },
  { kind: 'headers', headers: { etag: '"another"' } },
  { kind: 'headers', headers: { 'content-range': 'bytes 0-299/300' } },
  { kind: 'headers', headers: { 'content-encoding': 'gzip' } },
];
/** So that a file is requested again while bytes of it arrive. */
const DRIPPING: PlainAct = { kind: 'drip', bytes: 200, everyMs: 2 };
/** Of a file of a history. */
const MOST_RANGES = 12;

export const contentSteps: readonly Step[] = [
  download('content: its links have expired, for a short time', (world) => files(world, EXPIRED, FEW)),
  download('content: its links have expired, for long', (world) => files(world, EXPIRED, MANY)),
  {
    ...download('content: in ranges, one of which goes wrong', (world, datasetId) => {
      const match = { operation: 'file', datasetId } as const;
      world.feed.faults.add({ match: { ...match, times: 'always' }, act: DRIPPING });
      for (let spoilt = world.random.integer(1, 3); spoilt > 0; spoilt -= 1) {
        const nth = world.random.integer(2, MOST_RANGES);
        const times = world.random.integer(1, 4);
        // Only a digest shows that a bit was flipped.
        const acts = OF_A_RANGE.filter(({ kind }) => kind !== 'flipBit' || world.settings.sha256);
        world.feed.faults.add({ match: { ...match, nth, times }, act: world.random.pick(acts) });
      }
    }),
    onlyOn: 'real',
    weight: 4,
  },
  download('content: damaged, for a short time', (world) => files(world, DAMAGED, FEW)),
  download('content: damaged, until there is a newer version', (world, datasetId) => {
    world.damaged.add(datasetId);
    files(world, DAMAGED, MANY, datasetId);
  }),
  download('content: it changes while it downloads', (world, datasetId) => {
    const match = { operation: 'file', datasetId } as const;
    const until = async (): Promise<void> => {
      world.reported.push(`  while it downloads: ${world.publish(datasetId)}`);
    };
    world.feed.faults.add({ match, act: { kind: 'wait', until } });
    world.feed.faults.add({ match, act: EXPIRED });
  }),
];

/** There is a snapshot to be loaded, something is wrong with it, and a catch-up meets that. */
function download(name: string, goWrong: (world: World, datasetId: string) => void): Step {
  return {
    name,
    isFault: true,
    weight: 2,
    applies: (world) => hasMembers(world) && !world.isFrozen,
    act: async (world) => {
      const datasetId = world.anyMember();
      const anew = world.resync(datasetId, world.contentOfNext(datasetId, 'most'));
      goWrong(world, datasetId);
      await catchUp(world);
      return anew;
    },
  };
}

function files(world: World, act: PlainAct, times: number, datasetId?: string): void {
  const about = datasetId === undefined ? {} : { datasetId };
  world.feed.faults.add({ match: { operation: 'file', times, ...about }, act });
}
