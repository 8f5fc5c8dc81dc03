/** The staging folder, on real files. */

import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { observeDurableEffects } from '../../src/lib/files.ts';
import { openStaging } from '../../src/sync/execute/staging-folder.ts';

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'feed-sync-staging-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

describe('staging', () => {
  it.each(['parcels', '../../etc/passwd', 'a/b', '..', '', '\u0000', 'é'.repeat(5_000)])(
    'makes for %j a folder inside staging, the same each time, for the owner alone',
    async (datasetId) => {
      const directory = join(await newFolder(), 'staging');
      const staging = openStaging(directory);
      const folder = await staging.folderOf(datasetId);
      expect(dirname(folder)).toBe(directory);
      expect(await staging.folderOf(datasetId)).toBe(folder);
      expect((await stat(folder)).mode & 0o777).toBe(0o700);
      expect((await stat(directory)).mode & 0o777).toBe(0o700);
    },
  );

  it('makes a folder for each dataset', async () => {
    const staging = openStaging(await newFolder());
    expect(await staging.folderOf('a')).not.toBe(await staging.folderOf('A'));
  });

  it('discards the files of a committed dataset, also twice', async () => {
    const staging = openStaging(await newFolder());
    const folder = await staging.folderOf('a');
    await writeFile(join(folder, 'part-0'), 'x');
    await staging.discard('a');
    await staging.discard('a');
    expect(existsSync(folder)).toBe(false);
  });

  it('keeps the changes of each version apart, and from the files of the snapshot', async () => {
    const directory = await newFolder();
    const staging = openStaging(directory);
    await staging.keepOnly([]);
    const versions = await Promise.all([2, 21].map((version) => staging.pagesOfChanges('a', version)));
    const paths = versions.flatMap((pathOf) => [pathOf(0), pathOf(1)]);
    expect(new Set(paths).size).toBe(4);
    const folder = await staging.folderOf('a');
    await writeFile(join(folder, 'part-0'), 'x');
    for (const path of paths) await writeFile(path, 'x');
    await writeFile(`${paths[0]}.made-of-it`, 'x');
    await staging.discardChanges('a', 2);
    expect(paths.map((path) => existsSync(path))).toEqual([false, false, true, true]);
    expect(existsSync(`${paths[0]}.made-of-it`)).toBe(false);
    await staging.discardChanges('a');
    await staging.discardChanges('a');
    expect(await readdir(folder)).toEqual(['part-0']);
    await staging.pagesOfChanges('a', 2);
    await staging.discard('a');
    expect(await readdir(directory)).toEqual([]);
  });

  it('keeps only the folders of the given datasets', async () => {
    const directory = await newFolder();
    const staging = openStaging(directory);
    const [kept] = [await staging.folderOf('a'), await staging.folderOf('b')];
    await writeFile(join(kept, 'part-0'), 'x');
    await staging.keepOnly(['a', 'c']);
    expect(await readdir(directory)).toEqual([kept.slice(directory.length + 1)]);
    expect(await readdir(kept)).toEqual(['part-0']);
  });

  it('leaves what is not its own, as on a disk that is linked or mounted there', async () => {
    const directory = await newFolder();
    await writeFile(join(directory, 'photos.zip'), 'x');
    await mkdir(join(directory, 'lost+found'));
    const staging = openStaging(directory);
    await staging.folderOf('a');
    await staging.keepOnly([]);
    expect((await readdir(directory)).toSorted()).toEqual(['lost+found', 'photos.zip']);
  });

  it('keeps and discards candidates one by one, because each may evict the others', async () => {
    const staging = openStaging(await newFolder());
    const datasetIds = Array.from({ length: 20 }, (_, index) => `dataset ${index}`);
    const keep = async (datasetId: string, maxBytes: number): Promise<void> => {
      const path = join(await staging.folderOf(datasetId), 'part-0');
      await writeFile(path, 'x');
      await staging.keepCandidate(datasetId, new Map([[path, 'part-0']]), maxBytes);
    };
    const isKept = (datasetId: string): boolean => existsSync(staging.candidatePath(datasetId, 'part-0'));
    let underWay = 0;
    let mostUnderWay = 0;
    onTestFinished(() => observeDurableEffects(() => {}));
    observeDurableEffects((name, phase) => {
      if (!name.endsWith('-candidate')) return;
      underWay += phase === 'before' ? 1 : -1;
      mostUnderWay = Math.max(mostUnderWay, underWay);
    });
    await Promise.all(
      datasetIds.map(async (datasetId) => {
        await keep(datasetId, 1_000);
        await staging.discardCandidate(datasetId);
      }),
    );
    expect(datasetIds.filter(isKept)).toEqual([]);
    await Promise.all(datasetIds.map((datasetId) => keep(datasetId, 2)));
    expect(datasetIds.filter(isKept)).toHaveLength(2);
    expect(mostUnderWay).toBe(1);
  });

  it('creates the folder that it is opened in', async () => {
    const directory = join(await newFolder(), 'data', 'staging');
    await openStaging(directory).keepOnly([]);
    expect(await readdir(directory)).toEqual([]);
  });

  it('reports a staging folder that cannot be used as a storage error, with its path', async () => {
    const path = join(await newFolder(), 'file');
    await writeFile(path, 'in the way');
    const expected = { name: 'StorageError', message: expect.stringContaining(path) };
    await expect(openStaging(path).folderOf('a')).rejects.toMatchObject(expected);
    await expect(openStaging(path).keepOnly([])).rejects.toMatchObject(expected);
  });
});
