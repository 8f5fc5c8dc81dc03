/** F59 what a disk may lose (disk.ts), and that the page of this folder says of every sync of the program why it is there. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { durableEffects } from '../support/durable-names.ts';
import { projectRoot, sourceFiles } from '../support/source-tree.ts';
import { ALL_LOST, CONTENT_LOST, Disk, NOTHING_LOST } from './disk.ts';
import type { Effect } from './effects.ts';
import { ownSyncs, syncSites } from './syncs.ts';

const ROOT = '1';
const FILE = '2';

const say = (text: string): Effect => ({ kind: 'say', text: `${text}\n` });
const write = (offset: number, text: string): Effect => ({
  kind: 'write',
  inode: FILE,
  offset,
  bytes: Buffer.from(text),
});

function diskAfter(...effects: readonly Effect[]): Disk {
  const disk = new Disk(ROOT);
  for (const effect of effects) disk.apply(effect);
  return disk;
}

function textsOf(files: ReadonlyMap<string, Buffer | null>): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries([...files].map(([path, bytes]) => [path, bytes?.toString()]));
}

describe('the model of a disk that loses power', () => {
  const created: Effect = { kind: 'create', inode: FILE, path: 'file' };
  const synced: Effect = { kind: 'sync', inode: FILE };
  const folderSynced: Effect = { kind: 'sync', inode: ROOT };

  it('F59 loses a synced file if its folder was not synced', () => {
    const disk = diskAfter(created, write(0, 'abc'), synced);
    expect(textsOf(disk.after(ALL_LOST))).toEqual({});
    expect(textsOf(disk.after(NOTHING_LOST))).toEqual({ file: 'abc' });
  });
  it('F59 keeps a file as it was at its last sync', () => {
    const disk = diskAfter(created, write(0, 'abc'), synced, folderSynced, write(1, 'xyz'));
    expect(textsOf(disk.after(ALL_LOST))).toEqual({ file: 'abc' });
    expect(textsOf(disk.after(NOTHING_LOST))).toEqual({ file: 'axyz' });
  });
  it('F59 keeps zeroes in a file that became longer, and the old bytes where it was overwritten', () => {
    const disk = diskAfter(created, write(0, 'abc'), synced, folderSynced, write(1, 'xyz'));
    expect(textsOf(disk.after(CONTENT_LOST))).toEqual({ file: 'abc\0' });
  });
});

describe('the syncs in a recording', () => {
  it('F59 names syncs by durable effect, kind and number', () => {
    const effects: readonly Effect[] = [
      say('before cli.init'),
      { kind: 'create', inode: FILE, path: 'file' },
      { kind: 'sync', inode: FILE },
      { kind: 'sync', inode: ROOT },
      say('after cli.init'),
      { kind: 'sync', inode: ROOT },
      say('before cli.init'),
      { kind: 'sync', inode: FILE },
    ];
    expect(syncSites(effects, ROOT, ['cli.init'])).toEqual([
      { name: 'cli.init, file 1', places: [2, 7] },
      { name: 'cli.init, folder 1', places: [3] },
    ]);
  });
  it('F59 counts no sync to a failed effect once another one has begun', () => {
    const effects: readonly Effect[] = [
      say('before cli.init'),
      say('before cli.add-secret'),
      say('after cli.add-secret'),
      { kind: 'sync', inode: ROOT },
    ];
    expect(syncSites(effects, ROOT, ['cli.init'])).toEqual([]);
  });
});

describe('test/power/README.md', () => {
  it('F59 explains every sync of the program, and no other', async () => {
    const page = readFileSync(join(projectRoot, 'test/power/README.md'), 'utf8');
    const [, table = ''] = page.split('## What is each sync of the program for?');
    const rows = Array.from(table.matchAll(/^\| `([a-z-]+\.[a-z-]+)`/gm), ([, name]) => name);
    expect([...new Set(rows)].sort()).toEqual(ownSyncs(durableEffects(await sourceFiles('src'))));
  });
});
