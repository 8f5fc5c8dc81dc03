/** The versions that are dropped from a step where all have more bytes than may be staged: by themselves, and on the disk. */

import { readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Changes, ChangesRequest } from '../../src/feed/feed.ts';
import { ServiceUnavailableError } from '../../src/model/errors.ts';
import { StagedBytes } from '../../src/sync/execute/fetch-changes.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { SEED } from '../support/seed.ts';
import {
  calm,
  elapse,
  kinds,
  oneSubscription,
  publish,
  publishWithSnapshot,
  throwAt,
  versions,
  type World,
} from '../support/small-world.ts';

const HOUR_MS = 3_600_000;
const MAX_BYTES = 1_000_000;
const PAGE_BYTES = 100_000;

/** The limit in words, with the setting that states it. */
const LIMIT = 'more than the 1.0 MB that may be staged (changes.maxStagedBytes)';

describe('StagedBytes', () => {
  it('keeps versions as long as they have no more bytes than the limit together', () => {
    const staged = new StagedBytes(10);
    expect([staged.grow(0, 4), staged.grow(1, 3), staged.grow(0, 7)]).toEqual([true, true, true]);
    expect([0, 1, 2].map((position) => staged.hasLeft(position))).toEqual([false, false, false]);
  });

  it('drops versions from the latest on, whichever of them grows', () => {
    const staged = new StagedBytes(10);
    for (const position of [0, 1, 2]) staged.grow(position, 3);
    expect(staged.grow(0, 5)).toBe(true);
    expect([0, 1, 2, 3].map((position) => staged.hasLeft(position))).toEqual([false, false, true, true]);
    expect(staged.grow(1, 6)).toBe(true);
    expect([0, 1].map((position) => staged.hasLeft(position))).toEqual([false, true]);
  });

  it('drops all later versions, and reports that the first does not fit, where it alone exceeds the limit', () => {
    const staged = new StagedBytes(10);
    staged.grow(1, 2);
    expect(staged.grow(0, 11)).toBe(false);
    expect([0, 1].map((position) => staged.hasLeft(position))).toEqual([false, true]);
  });

  it('never exceeds the limit, and drops no more versions than necessary', () => {
    const position = fc.integer({ min: 0, max: 5 });
    const growth = fc.record({ position, bytes: fc.integer({ min: 1, max: 7 }) });
    const property = fc.property(fc.array(growth, { maxLength: 60 }), (growths) => {
      const staged = new StagedBytes(20);
      const bytesAt = [0, 0, 0, 0, 0, 0];
      growths.every((one) => staged.hasLeft(one.position) || growsRightly(staged, bytesAt, one));
    });
    fc.assert(property, { seed: SEED, numRuns: 300 });
  });

  /** Checks one growth of versions that may have 20 bytes together. Returns false where the first does not fit. */
  function growsRightly(
    staged: StagedBytes,
    bytesAt: number[],
    { position, bytes }: { readonly position: number; readonly bytes: number },
  ): boolean {
    const staying = (): readonly number[] => bytesAt.filter((_, at) => !staged.hasLeft(at));
    const before = staying().length;
    const grown = (bytesAt[position] ?? 0) + bytes;
    bytesAt[position] = grown;
    const fits = staged.grow(position, grown);
    if (!fits) expect([position, grown > 20]).toEqual([0, true]);
    else expect(sumOf(staying())).toBeLessThanOrEqual(20);
    // The first of those that leave now does not fit beside those that stay.
    const end = staying().length;
    if (end < before) expect(sumOf(bytesAt.slice(0, end + 1))).toBeGreaterThan(20);
    return fits;
  }
});

const sumOf = (bytes: readonly number[]): number => bytes.reduce((total, one) => total + one, 0);

/** The bytes below a folder; a file that is removed meanwhile counts nothing. */
async function bytesBelow(folder: string): Promise<number> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => []);
  const sizes = entries
    .filter((entry) => entry.isFile())
    .map((entry) =>
      stat(join(entry.parentPath, entry.name)).then(
        ({ size }) => size,
        () => 0,
      ),
    );
  return (await Promise.all(sizes)).reduce((total, size) => total + size, 0);
}

interface Limited {
  readonly world: World;
  /** The most that was on the disk whenever a page was written. */
  readonly most: () => number;
}

/** A mirror at version 1 of `parcels`, and versions after it that have as many pages of changes each. */
async function limited(pages: readonly number[], hasSnapshot: boolean): Promise<Limited> {
  const world = await oneSubscription('parcels');
  await world.catchUp();
  calm(world);
  Object.assign(world.parts.choices, { maxStagedBytes: MAX_BYTES });
  let most = 0;
  const ofPages = (count: number) => async (request: ChangesRequest, signal: AbortSignal) => {
    const paths: string[] = [];
    for (let page = 1; page <= count; page += 1) {
      // Several versions are fetched at once, and each page comes by itself.
      await new Promise((resolve) => setImmediate(resolve));
      signal.throwIfAborted();
      request.onBytes(PAGE_BYTES);
      await request.onStaging?.(page * PAGE_BYTES);
      const path = request.pathOf(page);
      await writeFile(path, Buffer.alloc(PAGE_BYTES));
      paths.push(path);
      most = Math.max(most, await bytesBelow(world.parts.choices.stagingDirectory));
    }
    return recordedIn(paths);
  };
  for (const [index, count] of pages.entries()) {
    world.service.changes.set(`parcels ${index + 2}`, ofPages(count));
    if (hasSnapshot) publishWithSnapshot(world, 'parcels');
    else publish(world, 'parcels');
  }
  return { world, most: () => most };
}

function recordedIn(pages: readonly string[]): Changes {
  const bytes = pages.length * PAGE_BYTES;
  return { recorded: true, previousVersion: null, schemaVersion: null, pages, bytes };
}

function reached({ datasets }: CatchUpResult): readonly number[] {
  return datasets.flatMap(({ commits }) => commits.map(({ toVersion }) => toVersion));
}

const changesAsked = ({ calls }: World): readonly string[] =>
  calls.filter((call) => call.startsWith('changes')).sort();

describe('changes of more bytes than may be staged', () => {
  it('applies them in as many steps as fit, and never has more on the disk', async () => {
    const { world, most } = await limited([4, 4, 4, 4, 4, 4], true);
    const result = await world.catchUp();
    expect(kinds(result)).toEqual({ parcels: 'applied, applied, applied' });
    expect(reached(result)).toEqual([3, 5, 7]);
    expect(most()).toBeGreaterThan(MAX_BYTES / 2);
    expect(most()).toBeLessThanOrEqual(MAX_BYTES);
    expect(await readdir(world.parts.choices.stagingDirectory)).toEqual([]);
    expect(world.calls).not.toContain('download parcels');
  });

  it('applies versions that each have exactly as many bytes as may be staged', async () => {
    const { world, most } = await limited([10, 10], false);
    expect(reached(await world.catchUp())).toEqual([2, 3]);
    expect(most()).toBe(MAX_BYTES);
  });

  it('falls back to the snapshot for one version that is too large, and leaves nothing of it on the disk', async () => {
    const { world, most } = await limited([2, 11, 2], true);
    const result = await world.catchUp();
    expect(kinds(result)).toEqual({ parcels: 'applied, loaded' });
    expect(reached(result)).toEqual([2, 4]);
    expect(most()).toBeLessThanOrEqual(MAX_BYTES);
    expect(await readdir(world.parts.choices.stagingDirectory)).toEqual([]);
    const why = `they have ${LIMIT}`;
    expect(world.logged).toContainEqual([
      'info',
      { dataset: 'parcels', version: 3, why },
      'Fell back to the snapshot.',
    ]);
    expect(world.checkpoint.recentSyncRuns(2).map(({ kind, detail }) => `${kind} ${detail}`)).toEqual([
      `loaded version 4, 10 rows: the changes of version 3 cannot be used: ${why}`,
      `fell back from the changes of version 3 to the snapshot: ${why}`,
    ]);
    expect(world.checkpoint.failures()).toEqual(new Map());
  });

  it('ends the fetch of a version at the first page too many', async () => {
    const { world, most } = await limited([11], true);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(most()).toBe(MAX_BYTES);
  });

  it('keeps the table at the version before the changes until a snapshot is listed, and names the setting', async () => {
    const { world } = await limited([2, 2, 11, 2], false);
    const first = await world.catchUp();
    expect(first).toMatchObject({
      datasets: [
        {
          kind: 'waiting',
          why: `the manifest is older than what the service has announced, or may be; the changes of version 4 cannot be used: they have ${LIMIT}`,
          commits: [{ kind: 'changes', toVersion: 3 }],
        },
      ],
    });
    expect(await bytesBelow(world.parts.choices.stagingDirectory)).toBe(0);
    expect(world.checkpoint.failures().get('parcels')).toMatchObject({
      message: `The changes of parcels version 4 cannot be applied: they have ${LIMIT}.`,
      hint: expect.stringContaining('raise changes.maxStagedBytes'),
    });
    publishWithSnapshot(world, 'parcels');
    world.service.changes.set('parcels 6', async () => ({ recorded: false, why: 'not requested' }));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(versions(world)).toEqual({ parcels: 6 });
    expect(world.checkpoint.failures()).toEqual(new Map());
  });

  it('does not fetch changes again for a day while their snapshot is awaited', async () => {
    const { world } = await limited([11], false);
    await world.catchUp();
    calm(world);
    const again = await world.catchUp();
    expect(again).toMatchObject({
      datasets: [{ kind: 'waiting', why: expect.stringContaining('(changes.maxStagedBytes)') }],
    });
    expect(changesAsked(world)).toEqual([]);
    elapse(world, 25 * HOUR_MS);
    await world.catchUp();
    expect(changesAsked(world)).toEqual(['changes parcels 2']);
  });

  it('does not fetch changes again where the service was unreachable after the fallback', async () => {
    const { world } = await limited([11], true);
    throwAt(world, /^download/, new ServiceUnavailableError('out of reach'));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'failed' });
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(changesAsked(world)).toEqual([]);
  });

  it('applies the changes once more bytes may be staged', async () => {
    const { world } = await limited([11], false);
    await world.catchUp();
    Object.assign(world.parts.choices, { maxStagedBytes: 11 * PAGE_BYTES });
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied' });
    expect(world.checkpoint.failures()).toEqual(new Map());
  });
});
