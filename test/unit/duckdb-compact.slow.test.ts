/** The mirror during its compaction into a new file: readers, writers, and failures in the middle. */

import { spawnSync } from 'node:child_process';
import { readdirSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { observeDurableEffects } from '../../src/lib/files.ts';
import { BusyError, InterruptedError, StorageError } from '../../src/model/errors.ts';
import { startChild } from '../support/child.ts';
import { compactAt } from '../support/compacting.ts';
import { namesBeside, PLOT, refusedAt, SHAPES, workedOnMirror } from '../support/compacting-world.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { duckdb } from '../support/duckdb-mirror.ts';

/** Calls `act` once, just before or after the effect. */
function at(timestamp: string, act: () => void): void {
  observeDurableEffects((name, when) => {
    if (`${when} ${name}` !== timestamp) return;
    observeDurableEffects(() => {});
    act();
  });
  onTestFinished(() => observeDurableEffects(() => {}));
}

/** Runs the statement in another process, which ends before this returns. Returns its rows, or the kind of its error. */
function elsewhere(path: string, mode: 'READ_ONLY' | 'READ_WRITE', sql: string): string {
  const script = `import { DuckDBInstance } from '@duckdb/node-api';
    try {
      const instance = await DuckDBInstance.create(process.argv[1], { access_mode: '${mode}' });
      const connection = await instance.connect();
      console.log(JSON.stringify((await connection.runAndReadAll(${JSON.stringify(sql)})).getRowsJson()));
      connection.closeSync();
      instance.closeSync();
    } catch (error) { console.log(error.message.split(':')[0]); }`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script, path], {
    encoding: 'utf8',
  });
  return stdout.trim();
}

/** Returns the error of compacting in a process that may write files of a limited size only, which to DuckDB is a full disk. */
function onDiskOf(bytes: number, path: string): string {
  const script = `import { compactAt } from '${new URL('../support/compacting.ts', import.meta.url).href}';
    await compactAt(process.argv[1]).catch((error) => console.log(String(error)));`;
  const command = `ulimit -f ${Math.floor(bytes / 512)}; exec "$0" "$@"`;
  const words = ['-c', command, process.execPath, '--input-type=module', '-e', script, path];
  return spawnSync('sh', words, { encoding: 'utf8' }).stdout;
}

describe('a compacted mirror', () => {
  it('shrinks a mirror with much free space, which takes loads and changes afterwards', async () => {
    const made = await workedOnMirror();
    await made.byHand(
      'CREATE TABLE much AS SELECT hash(i) AS h FROM range(1_000_000) r(i)',
      'CHECKPOINT',
      'CREATE TABLE behind AS SELECT hash(i) AS h FROM range(100_000) r(i)',
      'CHECKPOINT',
      'DROP TABLE much',
    );
    const before = statSync(made.path).size;
    expect(await compactAt(made.path)).toMatchObject({ bytesBefore: before });
    expect(statSync(made.path).size).toBeLessThan(before / 2);
    const course = await made.loaded(
      firstContent(SHAPES, [[1, 'anew', 1, PLOT, { json: {} }, null]]),
      'later',
    );
    course.publishRows([[1, 'again', 1, PLOT, { json: {} }, null]]);
    expect(await made.apply(course)).toMatchObject({ kind: 'committed' });
  });

  it('compacts a mirror behind a link in its place, with the content of its write-ahead log', async () => {
    const made = await workedOnMirror();
    const real = join(made.folder, 'real.duckdb');
    renameSync(made.path, real);
    symlinkSync(real, made.path);
    // Ended without a checkpoint: what it wrote is in the log.
    elsewhere(
      real,
      'READ_WRITE',
      'PRAGMA disable_checkpoint_on_shutdown; CREATE TABLE late AS SELECT 1 AS one',
    );
    expect(readdirSync(made.folder)).toContain('real.duckdb.wal');
    await compactAt(made.path);
    expect(await duckdb(`ATTACH '${made.path}' AS m (READ_ONLY)`, 'FROM m.late')).toEqual([[1]]);
    expect(namesBeside(made)).toEqual(['mirror.duckdb']);
    expect(readdirSync(made.folder).filter((name) => name.startsWith('real'))).toEqual(['real.duckdb']);
  });
});

it('lets readers but no writer open the old file during compaction, and waits for earlier readers', async () => {
  const made = await workedOnMirror();
  let seen: readonly string[] = [];
  at('before destination.compact', () => {
    seen = [
      elsewhere(made.path, 'READ_ONLY', 'SELECT count(*) FROM parcels'),
      elsewhere(made.path, 'READ_WRITE', 'SELECT 1'),
    ];
  });
  await compactAt(made.path);
  expect(seen).toEqual(['[["3"]]', 'IO Error']);
  const reader = startChild('duckdb-holder-child.ts', made.path);
  onTestFinished(() => reader.kill());
  expect(await reader.nextLine()).toBe('held');
  expect(await refusedAt(made)).toBeInstanceOf(BusyError);
});

describe('a compaction that does not complete', () => {
  it('compacts nothing, and leaves no file behind, where it is interrupted between any two steps', async () => {
    const made = await workedOnMirror();
    const before = await made.dump();
    for (const name of ['attach', 'create', 'no-log', 'give', 'commit', 'write', 'settle']) {
      const stopped = new AbortController();
      at(`before destination.compact-${name}`, () => stopped.abort(new InterruptedError('Asked to stop.')));
      expect(await refusedAt(made, { signal: stopped.signal }), name).toBeInstanceOf(InterruptedError);
    }
    expect(await made.dump()).toEqual(before);
  });

  it('compacts nothing without room, where the copy differs, or where another process wrote meanwhile', async () => {
    const made = await workedOnMirror();
    const noRoom = await refusedAt(made, { reserveBytes: 1e18 });
    expect(noRoom).toBeInstanceOf(StorageError);
    expect(noRoom.message).toMatch(
      /^Not enough space in .*: a new mirror needs .* \(disk.reserve\), and .* are free\.$/,
    );
    at('before destination.compact-settle', () => {
      elsewhere(`${made.path}.compacting`, 'READ_WRITE', "UPDATE parcels SET name = 'bent' WHERE id = 3");
    });
    const bent = await refusedAt(made);
    expect(bent).toBeInstanceOf(StorageError);
    expect(bent.message).toContain('The copy of the table main.parcels of');
    at('after destination.compact-settle', () => writeFileSync(`${made.path}.wal`, ''));
    await expect(compactAt(made.path)).rejects.toThrow(BusyError);
    expect(namesBeside(made)).toEqual(['mirror.duckdb', 'mirror.duckdb.wal']);
  });

  it('F07 compacts nothing, and leaves no file behind, where the disk is full in the middle', async () => {
    const made = await workedOnMirror();
    await made.byHand('CREATE TABLE much AS SELECT hash(i) AS h FROM range(1_000_000) r(i)');
    const before = statSync(made.path, { bigint: true });
    expect(onDiskOf(4_000_000, made.path)).toMatch(/^StorageError: The disk of .*mirror\.duckdb is full/);
    expect(namesBeside(made)).toEqual(['mirror.duckdb']);
    expect(statSync(made.path, { bigint: true }).ino).toBe(before.ino);
    await compactAt(made.path);
  });
});
