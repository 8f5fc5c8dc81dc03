/** Examinations of files in one process, one after another, as the judge of faults has them made. */

import childProcess from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { type Examined, examineFile } from '../../src/destination/duckdb/damage/examine.ts';
import { countyFeed } from '../support/county-feed.ts';
import { damageTable, misplaceBlock } from '../support/damaged-mirror.ts';
import { duckdb } from '../support/duckdb-mirror.ts';
import { once } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';
import { warmScripts } from '../support/warm-script.ts';

const KINDS = ['permits', 'parcels', 'specimens'] as const;
const MEMORY_BYTES = 256_000_000;

/** A mirror, and copies of it: with a wrong checksum, with other rows, and with a block that ends the process. */
async function mirrors() {
  const { feed, datasetOf } = await countyFeed({ kinds: KINDS, rowsPerDataset: 200 });
  const installed = await program({ feed });
  await once(installed);
  const [permits, parcels, specimens] = KINDS.map((kind) => `main.${datasetOf(kind).replaceAll('-', '_')}`);
  const copyOf = (name: string): string => {
    const path = join(installed.home, `${name}.duckdb`);
    cpSync(installed.mirrorPath, path);
    return path;
  };
  const [sound, flipped, altered, misplaced] = ['sound', 'flipped', 'altered', 'misplaced'].map(copyOf);
  await damageTable(`${flipped}`, `${parcels}`);
  await duckdb(`ATTACH '${altered}' AS file`, `DELETE FROM file.${parcels}`, 'DETACH file');
  await misplaceBlock(`${misplaced}`, `${specimens}`, `${permits}`);
  const examined = (path: string | undefined): Promise<Examined> =>
    examineFile({
      path: `${path}`,
      memoryLimitBytes: MEMORY_BYTES,
      temporaryDirectory: join(installed.home, 'spill'),
    });
  return { sound, flipped, altered, misplaced, examined };
}

it('finds in a process that goes on what a process for each file finds, and uses none that has read damage', async () => {
  const { sound, flipped, altered, misplaced, examined } = await mirrors();
  const cold = new Map<string | undefined, Examined>();
  for (const path of [sound, flipped, altered, misplaced]) cold.set(path, await examined(path));
  const statesOf = (path: string | undefined) => new Set(cold.get(path)?.tables.map(({ state }) => state));
  expect(statesOf(sound)).toEqual(new Set(['sound']));
  expect(statesOf(flipped)).toEqual(new Set(['sound', 'damaged']));
  expect(statesOf(altered)).toEqual(new Set(['sound', 'altered']));
  expect(statesOf(misplaced)).toContain('ends-process');
  const spawned = vi.spyOn(childProcess, 'spawn');
  warmScripts();
  const startedFor = async (path: string | undefined): Promise<number> => {
    spawned.mockClear();
    expect(await examined(path)).toEqual(cold.get(path));
    return spawned.mock.calls.length;
  };
  expect(await startedFor(sound)).toBe(1);
  expect(await startedFor(sound)).toBe(0);
  expect(await startedFor(flipped)).toBe(0);
  expect(await startedFor(altered)).toBe(0);
  // The process that has read other rows than were committed has been ended.
  expect(await startedFor(sound)).toBe(1);
  // Damage has ended that one. The next one has skipped the table, so all that it has read is sound.
  expect(await startedFor(misplaced)).toBe(1);
  expect(await startedFor(sound)).toBe(0);
});
