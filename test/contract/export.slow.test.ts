/** F77 the export: generations of GeoParquet files that readers find whole, read back by readers that have nothing in common. */

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect, it } from 'vitest';
import type { Content } from '../../fixtures/source/content.ts';
import { acquireInstanceLock } from '../../src/checkpoint/instance-lock.ts';
import { EXPORT_LOCK } from '../../src/post-commit/export/folder.ts';
import { type ExportedFile, type Manifest, parseManifest } from '../../src/post-commit/export/generation.ts';
import { decodedRows } from '../support/decoded-parquet.ts';
import { localInstallation } from '../support/local-installation.ts';
import { queryRows } from '../support/parquet-reader.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const PARCELS = 'us-tx-travis-parcels';
const PERMITS = 'us-tx-travis-permits';

async function exporting(environment: Readonly<Record<string, string>> = {}) {
  const feed = await startedFeed();
  publishSmall(feed, [PARCELS, PERMITS]);
  const here = localInstallation({ feed, environment });
  const folder = join(here.home, 'export');
  here.environment['FEED_SYNC_EXPORT_PATH'] = folder;
  return {
    ...here,
    feed,
    folder,
    async publish(datasetId: string, rows: number) {
      feed.publisher.publish(datasetId, smallContent(numberedRows(rows)));
      await feed.prepareSnapshots();
    },
  };
}

function manifestIn(folder: string, name = 'manifest.json'): Manifest {
  const manifest = parseManifest(readFileSync(join(folder, name), 'utf8'));
  expect(manifest, `${name} in ${folder}`).not.toBeNull();
  return manifest as Manifest;
}

function fileOf({ files }: Manifest, datasetId: string): ExportedFile {
  const file = files.find(({ dataset }) => dataset === datasetId);
  expect(file, datasetId).toBeDefined();
  return file as ExportedFile;
}

/** All files below the folder, with `/`. */
function filesIn(folder: string): readonly string[] {
  return (
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
      // Holds the lock of the instance that exports there.
      .filter((name) => !name.startsWith(EXPORT_LOCK))
      .toSorted()
  );
}

function paths(manifest: Manifest): readonly string[] {
  return manifest.files.map(({ file }) => file);
}

describe('F77 the export', () => {
  it('F77 the export has a file for each dataset, and writes only those anew that were committed since', async () => {
    const { run, folder, publish } = await exporting();
    const first = await run('once');
    expect(first.exitCode, first.stderr).toBe(0);
    expect(first.stdout).toMatch(/\nExported generation 1 to .*\/export: 2 files, 2 new \([\d.]+ \w+\)\.\n$/);
    const before = manifestIn(folder);
    expect(before.files.map(({ dataset, version, rows }) => [dataset, version, rows])).toEqual([
      [PARCELS, 1, 2],
      [PERMITS, 1, 2],
    ]);
    expect(fileOf(before, PARCELS).file).toMatch(/^dataset=us-tx-travis-parcels\/version=1\/\d+\.parquet$/);

    const idle = await run('once');
    expect(idle.stdout).not.toContain('Exported');
    expect(manifestIn(folder)).toEqual(before);

    await publish(PARCELS, 5);
    expect((await run('once')).stdout).toContain('Exported generation 2');
    const after = manifestIn(folder);
    expect(fileOf(after, PERMITS)).toEqual(fileOf(before, PERMITS));
    expect(fileOf(after, PARCELS)).toMatchObject({ version: 2, rows: 5, keyColumns: ['id'] });
    expect(await decodedRows(join(folder, fileOf(after, PARCELS).file))).toHaveLength(5);
    expect(await queryRows(`SELECT count(*) FROM '${join(folder, fileOf(after, PARCELS).file)}'`)).toEqual([
      [5n],
    ]);
    // A reader that still has the generation before finds all its files.
    expect(manifestIn(folder, 'manifest-1.json')).toEqual(before);
    expect(filesIn(folder)).toEqual(
      [...new Set([...paths(before), ...paths(after), 'manifest.json', 'manifest-1.json'])].toSorted(),
    );

    await publish(PARCELS, 6);
    await run('once');
    expect(filesIn(folder)).toEqual(
      [
        ...new Set([...paths(after), ...paths(manifestIn(folder)), 'manifest.json', 'manifest-2.json']),
      ].toSorted(),
    );
    const status = JSON.parse((await run('status', '--json')).stdout) as { readonly export: unknown };
    expect(status.export).toEqual({ path: folder, exportedAt: expect.any(String) });
  });

  it('F77 the export leaves retired datasets out of new generations', async () => {
    const { run, folder, feed } = await exporting();
    await run('once');
    feed.publisher.remove(PERMITS, 'source_retired');
    expect((await run('once')).stdout).toContain('Exported generation 2');
    expect(manifestIn(folder).files.map(({ dataset }) => dataset)).toEqual([PARCELS]);
  });

  it('F77 the export writes missing files again, and those that another mirror had under the same number', async () => {
    const { run, folder, dataDirectory } = await exporting();
    await run('once');
    rmSync(join(folder, fileOf(manifestIn(folder), PARCELS).file));
    expect((await run('once')).stdout).toContain('2 files, 1 new');
    const before = manifestIn(folder);
    rmSync(dataDirectory, { recursive: true });
    const rebuilt = await run('once');
    expect(rebuilt.stdout).toContain('Exported generation 3');
    const after = manifestIn(folder);
    expect(after.files).toHaveLength(2);
    // What the generation before names is not written over.
    for (const { file, bytes } of before.files) expect(statSync(join(folder, file)).size).toBe(bytes);
    expect(paths(after).filter((file) => paths(before).includes(file))).toEqual([]);
  });

  it('F77 the export keeps the files of a lost mirror until its datasets are loaded again', async () => {
    const { run, folder, dataDirectory, environment, feed } = await exporting();
    await run('once');
    const before = manifestIn(folder);
    const { FEED_SYNC_BASE_URL: address = '' } = environment;
    for (const lost of [join(dataDirectory, 'mirror.duckdb'), dataDirectory]) {
      rmSync(lost, { recursive: true });
      Object.assign(environment, {
        FEED_SYNC_BASE_URL: 'http://127.0.0.1:1',
        FEED_SYNC_RETRY_MAX_ATTEMPTS: '1',
      });
      const unreachable = await run('once');
      expect([unreachable.exitCode, unreachable.stdout]).toEqual([
        75,
        expect.not.stringContaining('Exported'),
      ]);
      expect(manifestIn(folder), lost).toEqual(before);
    }
    environment['FEED_SYNC_BASE_URL'] = address;
    const error = { code: 'outside_coverage', message: 'Not covered.' };
    const act = { kind: 'respond', status: 403, json: { error } } as const;
    feed.faults.add({ match: { operation: 'versions', datasetId: PARCELS, times: 'always' }, act });
    expect((await run('once')).exitCode).toBe(77);
    const after = manifestIn(folder);
    expect(fileOf(after, PARCELS)).toEqual(fileOf(before, PARCELS));
    expect(fileOf(after, PERMITS).file).not.toBe(fileOf(before, PERMITS).file);
    feed.publisher.remove(PARCELS, 'source_retired');
    await run('once');
    expect(manifestIn(folder).files.map(({ dataset }) => dataset)).toEqual([PERMITS]);
  });

  it('F77 the export names the coordinate system, and never lets another one pass for WGS 84', async () => {
    const { run, folder, feed, home } = await exporting();
    const columns = [column('id', 'string', false), column('place', 'geometry')];
    const schema = { ...SMALL_SCHEMA, schemaVersion: '2', columns };
    const crs = { name: 'NAD83', id: { authority: 'EPSG', code: 2277 } };
    const written = async (name: string, geo: unknown): Promise<Content> => {
      const path = join(home, name);
      const said = JSON.stringify({ version: '1.1.0', primary_column: 'place', columns: { place: geo } });
      await queryRows(`COPY (SELECT 'a' AS id, ST_AsWKB('POINT (1 2)'::GEOMETRY) AS place) TO '${path}'
        (FORMAT parquet, KV_METADATA {geo: '${said}'})`);
      const bytes = await readFile(path);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      const file = { path, bytes: bytes.byteLength, rowCount: 1, sha256 };
      return { ...smallContent([['a', null]], [], schema), files: [file] };
    };
    const wkb = { encoding: 'WKB', geometry_types: ['Point'] };
    feed.publisher.publish(PARCELS, await written('feet.parquet', { ...wkb, crs }));
    feed.publisher.publish(PERMITS, await written('degrees.parquet', wkb));
    const { exitCode, stdout } = await run('once');
    expect(exitCode, stdout).toBe(0);
    const manifest = manifestIn(folder);
    expect(fileOf(manifest, PARCELS).geometries).toEqual([{ column: 'place', crs: 'EPSG:2277' }]);
    const stated = async (datasetId: string) => {
      const path = join(folder, fileOf(manifest, datasetId).file);
      const [[geo]] = (await queryRows(`SELECT decode(value) FROM parquet_kv_metadata('${path}')`)) as [
        [string],
      ];
      return (JSON.parse(geo) as { columns: { place: { crs?: unknown } } }).columns.place;
    };
    expect((await stated(PARCELS)).crs).toMatchObject({ type: 'EngineeringCRS', name: 'EPSG:2277' });
    expect(await stated(PERMITS)).not.toHaveProperty('crs');
    for (const { file } of manifest.files) {
      const [row] = await decodedRows(join(folder, file));
      expect(row).toMatchObject({ id: 'a', place: { type: 'Point', coordinates: [1, 2] } });
      const bounds = await queryRows(
        `SELECT geo_bbox.xmin, geo_bbox.ymax FROM parquet_metadata('${join(folder, file)}') WHERE geo_bbox IS NOT NULL`,
      );
      expect(bounds).toEqual([[1, 2]]);
    }
    readByGeoPandas(join(folder, fileOf(manifest, PERMITS).file));
  });

  it("F77 the cookbook's statement reads the export, with columns that are called like its folders, too", async () => {
    const { run, folder, feed } = await exporting();
    const columns = ['id', 'version', 'dataset'].map((name) => column(name, 'string', name !== 'id'));
    const schema = { ...SMALL_SCHEMA, schemaVersion: '2', columns };
    feed.publisher.publish(PARCELS, smallContent([['r1', 'second edition', 'of 2026']], null, schema));
    await feed.prepareSnapshots();
    await run('once');
    const page = readFileSync('docs/cookbook.md', 'utf8');
    const [statement = ''] = /SET VARIABLE parcels[\s\S]*?read_parquet[^;]*;/.exec(page) ?? [];
    const connection = await (await DuckDBInstance.create(':memory:')).connect();
    const read = await connection.runAndReadAll(statement.replaceAll('/srv/feeds/export', folder));
    expect(read.getRowObjects()).toEqual([{ id: 'r1', version: 'second edition', dataset: 'of 2026' }]);
    connection.closeSync();
  });

  it('F77 an export that cannot be written ends with 74, and readers keep the last generation', async () => {
    const { run, folder, publish, environment } = await exporting();
    await run('once');
    const before = filesIn(folder);
    await publish(PARCELS, 5);
    delete environment['FEED_SYNC_EXPORT_PATH'];
    await run('once');
    environment['FEED_SYNC_EXPORT_PATH'] = folder;
    environment['FEED_SYNC_DISK_RESERVE'] = '1000TB';
    const full = await run('once');
    expect([full.exitCode, full.stdout]).toEqual([74, expect.stringContaining('a file of the export needs')]);
    expect(filesIn(folder)).toEqual(before);
    environment['FEED_SYNC_DISK_RESERVE'] = '0MB';
    if (process.getuid?.() !== 0) {
      chmodSync(folder, 0o500);
      const refused = await run('once');
      chmodSync(folder, 0o700);
      expect([refused.exitCode, refused.stdout]).toEqual([74, expect.stringContaining('EACCES')]);
      expect(filesIn(folder)).toEqual(before);
    }
    expect((await run('once')).stdout).toContain('Exported generation 2');
  });

  it('F77 an export that fails repeatedly leaves the files of its last attempt only', async () => {
    const { run, folder, home, publish } = await exporting();
    mkdirSync(folder);
    mkdirSync(join(home, 'outside'));
    symlinkSync(join(home, 'outside'), join(folder, `dataset=${PERMITS}`));
    for (const rows of [3, 4, 5]) {
      expect((await run('once')).exitCode).toBe(74);
      await publish(PARCELS, rows);
    }
    expect(filesIn(folder)).toEqual([expect.stringMatching(`^dataset=${PARCELS}/version=3/`)]);
    rmSync(join(folder, `dataset=${PERMITS}`));
    expect((await run('once')).stdout).toContain('Exported generation 1');
    expect(filesIn(folder)).toHaveLength(3);
  });

  it('F62 F77 the export follows no planted link, and touches no file of others', async () => {
    const { run, folder, home } = await exporting();
    const [outside, victim] = [join(home, 'outside'), join(home, 'victim')];
    mkdirSync(folder);
    mkdirSync(outside);
    writeFileSync(victim, 'mine');
    writeFileSync(join(folder, 'README'), 'of others');
    symlinkSync(victim, join(folder, '.writing.parquet'));
    symlinkSync(victim, join(folder, 'manifest.json.tmp'));
    symlinkSync(outside, join(folder, `dataset=${PARCELS}`));
    const refused = await run('once');
    expect([refused.exitCode, refused.stdout]).toEqual([74, expect.stringContaining('ENOTDIR')]);
    expect(existsSync(join(folder, 'manifest.json'))).toBe(false);
    rmSync(join(folder, `dataset=${PARCELS}`));
    expect((await run('once')).stdout).toContain('Exported generation 1');
    expect(readFileSync(victim, 'utf8')).toBe('mine');
    expect(readFileSync(join(folder, 'README'), 'utf8')).toBe('of others');
    expect(filesIn(outside)).toEqual([]);
    expect(lstatSync(join(folder, 'manifest.json')).isFile()).toBe(true);
  });

  it('F77 the export refuses a folder where it would be in the way of others', async () => {
    const { run, folder, environment, dataDirectory, feed } = await exporting();
    mkdirSync(folder);
    chmodSync(folder, 0o777);
    const open = await run('once');
    expect([open.exitCode, open.stderr]).toEqual([78, expect.stringContaining('every user may write to')]);
    chmodSync(folder, 0o755);
    // What lies in its own folders is removed: that of verify --deep as a whole, once everything was compared.
    for (const inside of ['staging/export', 'verify', 'verify/export', 'duckdb-temporary-small']) {
      const own = join(dataDirectory, inside);
      environment['FEED_SYNC_EXPORT_PATH'] = own;
      const refused = await run('once');
      expect([refused.exitCode, refused.stderr]).toEqual([
        78,
        expect.stringMatching(/is .* or in it, which feed-sync needs for itself/),
      ]);
      expect(existsSync(own)).toBe(false);
    }
    expect(feed.requests.entries()).toEqual([]);
    const { stdout } = await run('doctor');
    expect(stdout).toMatch(/export folder.*which feed-sync needs for itself/s);
    environment['FEED_SYNC_EXPORT_PATH'] = folder;
    writeFileSync(join(folder, 'manifest.json'), '{"of": "another program"}');
    const foreign = await run('once');
    expect([foreign.exitCode, foreign.stdout]).toEqual([78, expect.stringContaining('none of an export')]);
    expect(readFileSync(join(folder, 'manifest.json'), 'utf8')).toContain('another program');
  });

  it('F77 the export keeps the file of a suspended dataset while others go on', async () => {
    const { run, folder, publish, environment } = await exporting();
    environment['FEED_SYNC_GATES_EMPTIED'] = 'suspend';
    await run('once');
    const before = manifestIn(folder);
    await publish(PARCELS, 0);
    await publish(PERMITS, 3);
    expect((await run('once')).exitCode).toBe(77);
    const after = manifestIn(folder);
    expect(fileOf(after, PARCELS)).toEqual(fileOf(before, PARCELS));
    expect(fileOf(after, PERMITS)).toMatchObject({ version: 2, rows: 3 });
    expect(filesIn(folder)).toContain(fileOf(after, PARCELS).file);
  });

  it('F77 the export refuses a second instance with another data directory: 75, and nothing is mixed', async () => {
    const { run, folder, environment, home } = await exporting();
    await run('once');
    const before = filesIn(folder);
    const lock = await acquireInstanceLock({
      path: join(folder, EXPORT_LOCK),
      uid: null,
      holder: { pid: 1, host: 'elsewhere', startedAt: new Date(0), command: 'run' },
    });
    environment['FEED_SYNC_DATA_DIR'] = join(home, 'other');
    const second = await run('once');
    expect([second.exitCode, second.stdout + second.stderr]).toEqual([
      75,
      expect.stringContaining(`exports to ${folder}`),
    ]);
    expect(filesIn(folder)).toEqual(before);
    lock.release();
    delete environment['FEED_SYNC_DATA_DIR'];
    expect((await run('once')).exitCode).toBe(0);
  });

  it('F77 the export refuses another mirror with 78 until the operator says that the mirror moved', async () => {
    const { run, folder, environment, home, mirrorPath, publish } = await exporting();
    await run('once');
    const before = filesIn(folder);
    const manifest = manifestIn(folder);
    expect(manifest.mirror).toBe(mirrorPath);
    await publish(PARCELS, 5);
    environment['FEED_SYNC_DATA_DIR'] = join(home, 'other');
    const otherPath = join(home, 'other', 'mirror.duckdb');
    const second = await run('once');
    expect([second.exitCode, second.stdout]).toEqual([
      78,
      expect.stringContaining(`is of the mirror at ${mirrorPath}, and this mirror is at ${otherPath}`),
    ]);
    expect(filesIn(folder)).toEqual(before);
    expect(manifestIn(folder)).toEqual(manifest);

    // As the hint says.
    const text = readFileSync(join(folder, 'manifest.json'), 'utf8');
    writeFileSync(join(folder, 'manifest.json'), text.replace(mirrorPath, otherPath));
    expect((await run('once')).stdout).toContain('Exported generation 2');
    expect(manifestIn(folder).mirror).toBe(otherPath);
  });

  it('F77 an export of an earlier program belongs to the first mirror that goes on with it', async () => {
    const { run, folder, mirrorPath, publish } = await exporting();
    await run('once');
    const path = join(folder, 'manifest.json');
    writeFileSync(path, readFileSync(path, 'utf8').replace(/"mirror":"[^"]*",/, ''));
    expect(manifestIn(folder).mirror).toBeUndefined();
    await publish(PARCELS, 5);
    expect((await run('once')).exitCode).toBe(0);
    expect(manifestIn(folder)).toMatchObject({ generation: 2, mirror: mirrorPath });
  });

  it('F77 doctor checks the export folder', async () => {
    const { run, folder, diagnose } = await exporting();
    await run('once');
    expect((await diagnose()).all('ok')).toContain('disk export folder');
    rmSync(folder, { recursive: true });
    writeFileSync(folder, 'a file in its place');
    const [finding] = (await diagnose()).of('disk').filter(({ about }) => about === 'export folder');
    expect(finding).toMatchObject({ state: 'problem', exitCode: 74 });
  });

  it('F77 the files of the export have the permissions of their folder', async () => {
    const { run, folder } = await exporting();
    mkdirSync(folder);
    chmodSync(folder, 0o755);
    await run('once');
    const { file } = fileOf(manifestIn(folder), PARCELS);
    const mode = (name: string): string => (statSync(join(folder, name)).mode & 0o777).toString(8);
    expect([mode('manifest.json'), mode(file), mode(join(file, '..'))]).toEqual(['644', '644', '755']);
  });
});

/** GeoPandas, where this machine has it. */
function readByGeoPandas(path: string): void {
  const script = `import geopandas, sys; f = geopandas.read_parquet(sys.argv[1]); print(len(f), f.crs.to_authority())`;
  if (spawnSync('python3', ['-c', 'import geopandas']).status !== 0) {
    process.stderr.write('SKIPPED: python3 has no geopandas here, so the export is not read by it.\n');
    return;
  }
  const { stdout, stderr } = spawnSync('python3', ['-c', script, path], { encoding: 'utf8' });
  expect(stdout.trim(), stderr).toBe("1 ('OGC', 'CRS84')");
}
