/** The changes to files, on real files. */

import { existsSync } from 'node:fs';
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import {
  createFile,
  freeBytes,
  isOutOfInodes,
  makeDirectory,
  observeDurableEffects,
  openForWriting,
  remove,
  renameFile,
  replaceFile,
  wereInodesMissing,
  writeScratch,
} from '../../src/lib/files.ts';

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'feed-sync-files-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function modeOf(path: string): Promise<number> {
  return (await stat(path)).mode & 0o777;
}

describe('makeDirectory', () => {
  it('makes a folder and those above it for the owner alone, also twice', async () => {
    const folder = await newFolder();
    await makeDirectory('test.make', join(folder, 'a', 'b'));
    await makeDirectory('test.make', join(folder, 'a', 'b'));
    expect([await modeOf(join(folder, 'a')), await modeOf(join(folder, 'a', 'b'))]).toEqual([0o700, 0o700]);
  });

  it('makes folders side by side with the same folders above them', async () => {
    const above = join(await newFolder(), 'a', 'b');
    const paths = Array.from({ length: 8 }, (_, index) => join(above, String(index)));
    await Promise.all(paths.map((path) => makeDirectory('test.make', path)));
    expect(await readdir(above)).toHaveLength(8);
  });

  it('keeps the mode of an existing folder', async () => {
    const folder = await newFolder();
    await chmod(folder, 0o755);
    await makeDirectory('test.make', folder);
    expect(await modeOf(folder)).toBe(0o755);
  });

  it('refuses a folder that cannot be made: below a file, and in /proc, which says ENOENT', async () => {
    const folder = await newFolder();
    await writeFile(join(folder, 'file'), '');
    await expect(makeDirectory('test.make', join(folder, 'file'))).rejects.toMatchObject({ code: 'ENOTDIR' });
    await expect(makeDirectory('test.make', join(folder, 'file', 'a'))).rejects.toMatchObject({
      code: 'ENOTDIR',
    });
    if (existsSync('/proc')) {
      await expect(makeDirectory('test.make', '/proc/a/b')).rejects.toMatchObject({ code: 'ENOENT' });
    }
  });
});

describe('replaceFile', () => {
  it('writes the new content for the owner alone, and leaves nothing beside the file', async () => {
    const folder = await newFolder();
    const path = join(folder, 'file');
    await replaceFile('test.replace', path, 'old and longer');
    await replaceFile('test.replace', path, new Uint8Array([110, 101, 119]));
    expect(await readFile(path, 'utf8')).toBe('new');
    expect(await modeOf(path)).toBe(0o600);
    expect(await readdir(folder)).toEqual(['file']);
  });

  it('never shows a file in part: a reader that has it open reads the old content to its end', async () => {
    const path = join(await newFolder(), 'file');
    await replaceFile('test.replace', path, 'old');
    const reader = await openForWriting('test.open', path, 'append');
    const before = (await reader.stat()).ino;
    await replaceFile('test.replace', path, 'new');
    expect((await stat(path)).ino).not.toBe(before);
    expect((await reader.stat()).size).toBe(3);
    await reader.close();
  });

  it('F62 sets the mode before the content is there, whatever the umask is', async () => {
    const folder = await newFolder();
    const path = join(folder, 'file');
    const before = process.umask(0o077);
    onTestFinished(() => void process.umask(before));
    await replaceFile('test.replace', path, 'new', 0o644);
    expect(await modeOf(path)).toBe(0o644);
  });

  it("F62 follows no link that a neighbour planted, at the file's name or beside it", async () => {
    const folder = await newFolder();
    const victim = join(folder, 'victim');
    await writeFile(victim, 'of somebody else', { mode: 0o640 });
    const path = join(folder, 'file');
    const planted = [path, `${path}.tmp`, `${path}.0123456789abcdef.tmp`];
    for (const link of planted) await symlink(victim, link);
    await replaceFile('test.replace', path, 'new');
    expect([await readFile(victim, 'utf8'), await modeOf(victim)]).toEqual(['of somebody else', 0o640]);
    expect((await lstat(path)).isSymbolicLink()).toBe(false);
    expect(await readFile(path, 'utf8')).toBe('new');
    for (const link of planted.slice(1)) expect(await readlink(link)).toBe(victim);
  });

  it('F62 removes temporary files of killed processes, and none of a running process', async () => {
    const folder = await newFolder();
    const path = join(folder, 'file');
    const [left, recent, ofAnother] = [
      'file.0000000000000000.tmp',
      'file.1111111111111111.tmp',
      'other.0000000000000000.tmp',
    ];
    for (const name of [left, recent, ofAnother]) await writeFile(join(folder, name), 'a secret');
    for (const name of [left, ofAnother]) await utimes(join(folder, name), new Date(0), new Date(0));
    await replaceFile('test.replace', path, 'new');
    expect((await readdir(folder)).sort()).toEqual(['file', recent, ofAnother].sort());
  });

  it('leaves the old content where the new content cannot be put there', async () => {
    const folder = await newFolder();
    const path = join(folder, 'taken');
    await mkdir(path);
    await writeFile(join(path, 'inside'), 'x');
    await expect(replaceFile('test.replace', path, 'new')).rejects.toMatchObject({
      code: expect.any(String),
    });
    expect(await readdir(path)).toEqual(['inside']);
    expect(await readdir(folder), 'nothing is left beside it').toEqual(['taken']);
  });
});

describe('F66 inodes', () => {
  it.each([
    ['with inodes', { files: 1_000, ffree: 1 }, false],
    ['without inodes', { files: 1_000, ffree: 0 }, true],
    ['that makes inodes as needed', { files: 0, ffree: 0 }, false],
  ])('judges whether a file system is out of inodes: one %s', (_, seen, isOut) =>
    expect(isOutOfInodes(seen)).toBe(isOut),
  );

  const room = { files: 100_000, bavail: 50_000, bsize: 4_096 };
  it.each([
    ['without inodes', { ...room, ffree: 0 }, true],
    ['without inodes and without space', { ...room, bavail: 0, ffree: 0 }, true],
    ['in which files were removed since, with space', { ...room, ffree: 3 }, true],
    ['with few inodes and without space', { ...room, bavail: 10, ffree: 3 }, false],
    ['with many inodes, in which bytes were freed since', { ...room, ffree: 90_000 }, false],
    [
      'that was made with few inodes, in which bytes were freed since',
      { ...room, files: 200, ffree: 150 },
      false,
    ],
    [
      'that was made with few inodes, in which files were removed since',
      { ...room, files: 60, ffree: 20 },
      true,
    ],
    ['that makes inodes as needed', { ...room, files: 0, ffree: 0 }, false],
  ])('judges whether a write failed for lack of inodes, on a file system %s', (_, seen, were) =>
    expect(wereInodesMissing(seen)).toBe(were),
  );
});

describe('other changes to files', () => {
  it('writes a scratch file over an existing one, for the owner alone', async () => {
    const path = join(await newFolder(), 'file');
    await writeScratch('test.scratch', path, Buffer.from('old and longer'));
    await writeScratch('test.scratch', path, Buffer.from('new'));
    expect(await readFile(path, 'utf8')).toBe('new');
    expect(await modeOf(path)).toBe(0o600);
  });

  it('F62 writes a scratch file through no link', async () => {
    const folder = await newFolder();
    await writeFile(join(folder, 'victim'), 'of somebody else');
    await symlink(join(folder, 'victim'), join(folder, 'file'));
    await expect(
      writeScratch('test.scratch', join(folder, 'file'), Buffer.from('new')),
    ).rejects.toMatchObject({
      code: 'ELOOP',
    });
    expect(await readFile(join(folder, 'victim'), 'utf8')).toBe('of somebody else');
  });

  it('creates a file only where there is none', async () => {
    const path = join(await newFolder(), 'file');
    await createFile('test.create', path, 'first');
    await expect(createFile('test.create', path, 'second')).rejects.toMatchObject({ code: 'EEXIST' });
    expect(await readFile(path, 'utf8')).toBe('first');
    expect(await modeOf(path)).toBe(0o600);
  });

  it('renames a file over another', async () => {
    const folder = await newFolder();
    await writeFile(join(folder, 'a'), 'a');
    await writeFile(join(folder, 'b'), 'b');
    await renameFile('test.rename', join(folder, 'a'), join(folder, 'b'));
    expect(await readdir(folder)).toEqual(['b']);
    expect(await readFile(join(folder, 'b'), 'utf8')).toBe('a');
  });

  it('removes a folder with all its content, and does not fail where there is none', async () => {
    const folder = join(await newFolder(), 'a');
    await mkdir(join(folder, 'b'), { recursive: true });
    await writeFile(join(folder, 'b', 'c'), '');
    await remove('test.remove', folder);
    await remove('test.remove', folder);
    expect(existsSync(folder)).toBe(false);
  });

  it('opens a file for appending or for rewriting it', async () => {
    const path = join(await newFolder(), 'file');
    for (const [mode, text] of [
      ['append', 'a'],
      ['append', 'b'],
      ['truncate', 'c'],
      ['append', 'd'],
    ] as const) {
      const file = await openForWriting('test.open', path, mode);
      await file.write(text);
      await file.close();
    }
    expect(await readFile(path, 'utf8')).toBe('cd');
    expect(await modeOf(path)).toBe(0o600);
  });

  it('reads the free space of a disk', async () => {
    expect(await freeBytes(tmpdir())).toBeGreaterThan(0);
  });
});

describe('observeDurableEffects', () => {
  afterEach(() => observeDurableEffects(() => {}));

  it('reports every change by the name that it was given', async () => {
    const folder = await newFolder();
    const names: string[] = [];
    observeDurableEffects((name, timestamp) => timestamp === 'after' && names.push(name));
    await makeDirectory('test.make', join(folder, 'a'));
    await createFile('test.create', join(folder, 'a', 'x'), '');
    await replaceFile('test.replace', join(folder, 'a', 'x'), '');
    await renameFile('test.rename', join(folder, 'a', 'x'), join(folder, 'a', 'y'));
    await (await openForWriting('test.open', join(folder, 'a', 'z'), 'append')).close();
    await remove('test.remove', join(folder, 'a'));
    expect(names).toEqual(
      ['make', 'create', 'replace', 'rename', 'open', 'remove'].map((name) => `test.${name}`),
    );
  });
});
