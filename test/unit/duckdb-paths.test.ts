/** The places of a mirror and of its files: folders of any name, and links to another place. */

import { existsSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigurationError, StorageError } from '../../src/model/errors.ts';
import {
  column,
  load,
  mirrorIn,
  parquet,
  readerOf,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeEach(async () => {
  folder = await temporaryFolder();
});
afterEach(() => folder[Symbol.asyncDispose]());

/** Loads a table of one row whose file lies in `dataDirectory`, and reads it back through `path`. */
async function loadAndRead(dataDirectory: string, path: string): Promise<void> {
  const file = await parquet(dataDirectory, 'one.parquet', 'SELECT 7::BIGINT AS id');
  const mirror = await mirrorIn(dataDirectory, { path });
  const job = snapshot({ columns: [column('id', 'integer')], files: [file] });
  expect(await load(mirror, job)).toMatchObject([{ kind: 'committed' }]);
  await mirror.close();
  const reader = await readerOf(path);
  expect([...((await reader?.observed())?.datasets.keys() ?? [])]).toEqual(['parcels']);
  await reader?.close();
}

describe('a data directory', () => {
  it.each(["o'clock", 'two words', 'a "quoted" one', 'straße 東京', '100%20', 'a[1]', 'b*', '{c,d}', 'e;f'])(
    'loads and reads a mirror in a data directory named %s',
    async (name) => {
      const dataDirectory = join(folder.path, name);
      await mkdir(dataDirectory);
      await loadAndRead(dataDirectory, join(dataDirectory, 'mirror.duckdb'));
    },
  );

  it('refuses a mirror in a data directory with a question mark, and allows everything else there', async () => {
    const dataDirectory = join(folder.path, 'why?');
    await mkdir(dataDirectory);
    await loadAndRead(dataDirectory, join(folder.path, 'mirror.duckdb'));
    await expect(mirrorIn(dataDirectory)).rejects.toThrow(ConfigurationError);
    await expect(mirrorIn(dataDirectory)).rejects.toThrow('question mark');
  });
});

describe('the folder of a mirror', () => {
  it('creates a missing folder for the mirror', async () => {
    await loadAndRead(folder.path, join(folder.path, 'a', 'b', 'mirror.duckdb'));
  });

  it('names the path of a folder that cannot be created', async () => {
    const path = join(folder.path, 'file', 'mirror.duckdb');
    await writeFile(join(folder.path, 'file'), '');
    await expect(mirrorIn(folder.path, { path })).rejects.toThrow(StorageError);
    await expect(mirrorIn(folder.path, { path })).rejects.toThrow(path);
  });
});

describe('a mirror behind a link', () => {
  it.each(['mirror.duckdb', 'another name'])(
    'creates, fills and reads a mirror behind a link to %s',
    async (name) => {
      const elsewhere = join(folder.path, 'elsewhere');
      const dataDirectory = join(folder.path, 'data');
      await mkdir(elsewhere);
      await mkdir(dataDirectory);
      const path = join(dataDirectory, 'mirror.duckdb');
      await symlink(join('..', 'elsewhere', name), path);
      await loadAndRead(dataDirectory, path);
      expect(existsSync(join(elsewhere, name))).toBe(true);
      const again = await mirrorIn(dataDirectory, { path });
      expect((await again.has()).datasets.size).toBe(1);
      await again.close();
    },
  );

  it.each([
    ['a link to itself', 'mirror.duckdb'],
    ['a link into a missing folder', 'missing/mirror.duckdb'],
  ])('names the path of %s', async (_, target) => {
    const path = join(folder.path, 'mirror.duckdb');
    await symlink(target, path);
    await expect(mirrorIn(folder.path)).rejects.toThrow(StorageError);
    await expect(mirrorIn(folder.path)).rejects.toThrow(path);
  });
});
