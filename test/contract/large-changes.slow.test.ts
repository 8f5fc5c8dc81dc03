/** Gates: large changes wait for an operator, with the real client and a real mirror (F67, F68). */

import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { difference } from '../../fixtures/source/diff.ts';
import type { Candidate } from '../../src/model/candidate.ts';
import { type GateLimits, NO_LIMITS } from '../../src/model/gate.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { type ServedWorld, withRealMirror } from '../support/served-world.ts';
import { numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

const FEW: GateLimits = { ...NO_LIMITS, removedRows: { rows: 2, share: null } };

type World = Awaited<ReturnType<typeof withRealMirror>>;

/** `permits` has ten rows; the limits concern it alone. */
async function tenPermits(limits: GateLimits = FEW): Promise<World> {
  const world = await withRealMirror();
  publish(world, numberedRows(10), { changes: false });
  await world.catchUp();
  limit(world, limits);
  world.feed.requests.clear();
  return world;
}

function limit(world: World, limits: GateLimits): void {
  Object.assign(world.parts.choices, {
    limitsOf: (datasetId: string) => (datasetId === 'permits' ? limits : NO_LIMITS),
  });
}

type Rows = ReturnType<typeof numberedRows>;

/** Publishes these rows as the next version; without changes only the snapshot leads there. */
function publish({ feed }: ServedWorld, rows: Rows, { changes = true } = {}): void {
  const before = feed.store.dataset('permits').versions.at(-1)?.content.rows() ?? [];
  feed.publisher.publish(
    'permits',
    smallContent(rows, changes ? difference(SMALL_SCHEMA, before, rows) : null),
  );
}

function waiting({ checkpoint }: World): Candidate {
  const [candidate, ...others] = checkpoint.candidates();
  expect(others).toEqual([]);
  if (candidate === undefined) throw new Error('nothing waits');
  return candidate;
}

const contentRequests = ({ feed }: World) =>
  feed.requests.entries().filter(({ operation }) => operation === 'changes' || operation === 'file').length;

const count = async ({ folder }: World) =>
  Number((await inMirror(folder, 'SELECT count(*) FROM permits'))[0]?.[0]);

function approve(world: World): void {
  world.checkpoint.keepCandidate({ ...waiting(world), approvedAt: world.parts.clock.now() });
}

/** Another byte in the middle of every file that is kept, and as many bytes as before. Returns the number of files. */
async function alterKept({ parts }: World): Promise<number> {
  const { stagingDirectory } = parts.choices;
  const names = await readdir(stagingDirectory, { recursive: true });
  const kept = names.filter((name) => /candidate\/./.test(name)).map((name) => join(stagingDirectory, name));
  for (const path of kept) {
    const bytes = await readFile(path);
    const at = bytes.indexOf('r0000') >= 0 ? bytes.indexOf('r0000') + 5 : bytes.length >> 1;
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    await writeFile(path, bytes);
  }
  return kept.length;
}

const amounts = ({ folder }: World) =>
  inMirror(folder, 'SELECT id, amount::INTEGER FROM permits ORDER BY id');

const ended = ({ logged }: World) =>
  logged.flatMap(([, fields, line]) => (line === 'A commit waits no longer.' ? [fields['why']] : []));

describe.each([
  ['changes', true],
  ['a snapshot', false],
])('%s that removes more rows than allowed', (_, changes) => {
  async function withCandidate(): Promise<World> {
    const world = await tenPermits();
    publish(world, numberedRows(4), { changes });
    await world.catchUp();
    world.feed.requests.clear();
    return world;
  }

  it('a commit beyond the limits suspends only its dataset, with counts and keys, and is not fetched again', async () => {
    const world = await tenPermits();
    publish(world, numberedRows(4), { changes });
    world.feed.publisher.publish('parcels', smallContent(numberedRows(5), null));
    expect(kinds(await world.catchUp())).toEqual({
      parcels: 'loaded',
      permits: 'suspended',
      roads: 'current',
    });
    expect(await count(world)).toBe(10);
    const keys = ['r00004', 'r00005', 'r00006', 'r00007', 'r00008'];
    expect(waiting(world)).toMatchObject({
      version: 3,
      judged: {
        digest: expect.stringMatching(/^[0-9a-f]{64}$/),
        counts: { before: 10, after: 4, added: 0, removed: 6, isByKey: true },
        keys: { added: [], changed: [], removed: keys.map((key) => [key]) },
      },
    });
    const stored = waiting(world);
    world.feed.requests.clear();
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'suspended' });
    expect(contentRequests(world)).toBe(0);
    expect(waiting(world)).toEqual(stored);
    expect(world.logged.filter(([, , line]) => line.startsWith('A commit waits for'))).toHaveLength(1);
  });

  it('F67 commits a candidate once it is approved, from the kept files, and uses the approval once', async () => {
    const world = await withCandidate();
    approve(world);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: changes ? 'applied' : 'loaded' });
    expect(contentRequests(world)).toBe(0);
    expect(await count(world)).toBe(4);
    expect(world.checkpoint.candidates()).toEqual([]);
    expect(ended(world)).toEqual([expect.stringMatching(/^[0-9a-f]{8} was approved and committed$/)]);
    publish(world, [], { changes });
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'suspended' });
    expect(await count(world)).toBe(4);
  });

  it('F67 commits a candidate as approved although newer versions exist, which are judged after it', async () => {
    const world = await withCandidate();
    publish(world, numberedRows(1), { changes });
    publish(world, numberedRows(0), { changes });
    approve(world);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'suspended' });
    expect((await world.parts.destination.has()).datasets.get('permits')).toMatchObject({
      version: 3,
      rowCount: 4,
    });
    expect(waiting(world)).toMatchObject({
      version: 5,
      approvedAt: null,
      judged: { counts: { before: 4, removed: 4 } },
    });
  });

  it.each([
    ['approved', approve],
    ['within limits that were raised', (world: World) => limit(world, NO_LIMITS)],
  ])(
    'F67 fetches a candidate with altered files again, and commits it as it was judged: %s',
    async (__, allow) => {
      const world = await withCandidate();
      expect(await alterKept(world)).toBeGreaterThan(0);
      allow(world);
      expect(kinds(await world.catchUp())).toMatchObject({ permits: changes ? 'applied' : 'loaded' });
      expect(contentRequests(world)).toBeGreaterThan(0);
      expect(await amounts(world)).toEqual(numberedRows(4));
    },
  );

  it('F67 fetches a candidate without files again, which has to be the same', async () => {
    const world = await withCandidate();
    await rm(world.parts.choices.stagingDirectory, { recursive: true });
    approve(world);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: changes ? 'applied' : 'loaded' });
    expect(contentRequests(world)).toBeGreaterThan(0);
    expect(await count(world)).toBe(4);
  });

  it('raised limits let a candidate pass as it waits, without another download', async () => {
    const world = await withCandidate();
    publish(world, [], { changes });
    await world.catchUp();
    world.feed.requests.clear();
    limit(world, { ...FEW, removedRows: { rows: 6, share: null } });
    await world.catchUp();
    expect(await count(world)).toBe(0);
    expect(ended(world)).toEqual(['it passes the gate now']);
  });

  it('a candidate is over once a later version passes from the same base, such as its correction', async () => {
    const world = await withCandidate();
    publish(world, [...numberedRows(9), ['r00009', 77]], { changes });
    expect(kinds(await world.catchUp())).toMatchObject({ permits: changes ? 'applied' : 'loaded' });
    expect((await amounts(world)).at(-1)).toEqual(['r00009', 77]);
    expect(world.checkpoint.candidates()).toEqual([]);
    expect(ended(world)).toEqual(['version 4 was committed']);
  });

  it('a candidate is coalesced with later versions once their sum passes, where each version is a commit of its own', async () => {
    const world = await withCandidate();
    Object.assign(world.parts.choices, { commitsEveryVersion: () => true });
    publish(world, numberedRows(5), { changes });
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'suspended' });
    expect(await count(world)).toBe(10);
    publish(world, [...numberedRows(9), ['r00009', 77]], { changes });
    expect(kinds(await world.catchUp())).toMatchObject({ permits: changes ? 'applied' : 'loaded' });
    expect(world.checkpoint.candidates()).toEqual([]);
    for (const amount of [78, 79]) publish(world, [...numberedRows(9), ['r00009', amount]]);
    await world.catchUp();
    expect((await amounts(world)).at(-1)).toEqual(['r00009', 79]);
    const commits = `SELECT from_version || ' to ' || to_version FROM feed_sync.commits
      WHERE dataset_id = 'permits' AND from_version IS NOT NULL ORDER BY commit_number`;
    expect((await inMirror(world.folder, commits)).flat()).toEqual(['2 to 5', '5 to 6', '6 to 7']);
  });

  it('a candidate names a later version that waits, too, and fetches it once', async () => {
    const world = await withCandidate();
    publish(world, numberedRows(3), { changes });
    const before = waiting(world);
    await world.catchUp();
    expect(waiting(world)).toEqual({
      ...before,
      later: [
        expect.objectContaining({ version: 4, counts: expect.objectContaining({ before: 10, removed: 7 }) }),
      ],
    });
    world.feed.requests.clear();
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'suspended' });
    expect(contentRequests(world)).toBe(0);
  });

  it('a candidate is over where the service withdraws its version', async () => {
    const world = await withCandidate();
    world.feed.publisher.withdraw('permits');
    publish(world, numberedRows(9), { changes });
    expect(kinds(await world.catchUp())).toMatchObject({ permits: changes ? 'applied' : 'loaded' });
    expect(await count(world)).toBe(9);
    expect(ended(world)).toEqual(['version 3 was published anew']);
  });

  it('a candidate is fetched again, as the same, after a lost checkpoint', async () => {
    const world = await withCandidate();
    const stored = waiting(world);
    world.checkpoint.removeCandidate('permits');
    await world.catchUp();
    const { base, version, judged } = stored;
    expect(waiting(world)).toMatchObject({ base, version, judged });
  });
});

describe('several versions after a candidate, where each version is a commit of its own', () => {
  /** Version 3 waits; the following versions become known together. */
  async function caughtUpWith(...versions: readonly Rows[]): Promise<World> {
    const world = await tenPermits();
    Object.assign(world.parts.choices, { commitsEveryVersion: () => true });
    publish(world, numberedRows(4));
    await world.catchUp();
    world.feed.requests.clear();
    for (const rows of versions) publish(world, rows);
    await world.catchUp();
    return world;
  }

  const corrected = (amount: number): Rows => [...numberedRows(9), ['r00009', amount]];

  const commitsOf = async ({ folder }: World) => {
    const commits = `SELECT from_version || ' to ' || to_version FROM feed_sync.commits
      WHERE dataset_id = 'permits' AND from_version IS NOT NULL ORDER BY commit_number`;
    return (await inMirror(folder, commits)).flat();
  };

  it('coalesces versions after a candidate up to the shortest sum that passes, from pages that are fetched once', async () => {
    const world = await caughtUpWith(numberedRows(5), corrected(77), corrected(78), corrected(79));
    expect(await commitsOf(world)).toEqual(['2 to 5', '5 to 6', '6 to 7']);
    expect(world.checkpoint.candidates()).toEqual([]);
    const fetched = world.feed.requests.entries().filter(({ operation }) => operation === 'changes');
    expect(fetched).toHaveLength([3, 4, 5, 6, 7].length + [6, 7].length);
  });

  it('a candidate names each later version where no sum passes, and none is judged again', async () => {
    const world = await caughtUpWith(numberedRows(5), numberedRows(6));
    expect(waiting(world)).toMatchObject({ version: 3, later: [{ version: 4 }, { version: 5 }] });
    world.feed.requests.clear();
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'suspended' });
    expect(contentRequests(world)).toBe(0);
    expect(await commitsOf(world)).toEqual([]);
  });

  it('judges sums of later versions again once the limits were raised, the shortest first', async () => {
    const world = await caughtUpWith(numberedRows(7), numberedRows(5));
    expect(waiting(world)).toMatchObject({ version: 3, later: [{ version: 4 }, { version: 5 }] });
    limit(world, { ...FEW, removedRows: { rows: 3, share: null } });
    await world.catchUp();
    expect(await commitsOf(world)).toEqual(['2 to 4', '4 to 5']);
  });
});
