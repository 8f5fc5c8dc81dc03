/** F77 the export from PostgreSQL: its files have what those from DuckDB have. */

import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { DEBIAN, EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import { type Manifest, parseManifest } from '../../src/post-commit/export/generation.ts';
import { countyFeed } from '../support/county-feed.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { localInstallation } from '../support/local-installation.ts';
import { queryRows } from '../support/parquet-reader.ts';
import { PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';

const SERVERS = [EMBEDDED, DEBIAN];
for (const { name, folder } of SERVERS) {
  if (folder === null) process.stderr.write(`SKIPPED: ${name} is not installed.\n`);
}

function manifestIn(folder: string): Manifest {
  const manifest = parseManifest(readFileSync(join(folder, 'manifest.json'), 'utf8'));
  expect(manifest).not.toBeNull();
  return manifest as Manifest;
}

/** The columns with their types, what the file says of geometries, and the rows as sorted texts. */
async function contentOf(file: string) {
  const source = `read_parquet('${file}')`;
  const columns = (await queryRows(`DESCRIBE SELECT * FROM ${source}`)).map(([name, type]) => [
    String(name),
    String(type),
  ]);
  const cells = columns.map(([name = '', type = '']) => {
    const value = `"${name.replaceAll('"', '""')}"`;
    if (type.startsWith('GEOMETRY')) return `hex(ST_AsWKB(${value}))`;
    if (type.startsWith('TIMESTAMP'))
      return `CASE WHEN isfinite(${value}) THEN epoch_us(${value})::VARCHAR ELSE ${value}::VARCHAR END`;
    // The client would cut a byte order mark.
    return type === 'VARCHAR' ? `hex(encode(${value}))` : `${value}::VARCHAR`;
  });
  const rows = (await queryRows(`SELECT ${cells.join(', ')} FROM ${source}`)) as (string | null)[][];
  const texts = rows.map((row) =>
    row.map((cell, index) => (columns[index]?.[1] === 'JSON' && cell !== null ? sortedJson(cell) : cell)),
  );
  const geo = await queryRows(`SELECT decode(value) FROM parquet_kv_metadata('${file}') WHERE key = 'geo'`);
  return { columns, geo: String(geo), rows: texts.map((row) => JSON.stringify(row)).toSorted() };
}

/** The order of members and the way to write a number are no part of the content. */
function sortedJson(written: string): string {
  return JSON.stringify(JSON.parse(written), (_, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1)))
      : value,
  );
}

describe.each(SERVERS.filter(({ folder }) => folder !== null))('F77 the export from $name', (binaries) => {
  const server = postgresOfTests(binaries);

  it('F77 the export from PostgreSQL has the rows of the export from DuckDB in all types, and new files only for new commits', async () => {
    const { feed, datasetIds, datasetOf, publishNext } = await countyFeed({ rowsPerDataset: 60 });
    const address = await server.database();
    const installed = (environment: Readonly<Record<string, string>>) => {
      const here = localInstallation({
        feed,
        environment: { PATH: process.env['PATH'] ?? '', ...environment },
      });
      const folder = join(here.home, 'export');
      here.environment['FEED_SYNC_EXPORT_PATH'] = folder;
      return { ...here, folder };
    };
    const [inDatabase, inFile] = [installed({ FEED_SYNC_DESTINATION_URL: address }), installed({})];
    const compare = async (): Promise<void> => {
      for (const { run } of [inDatabase, inFile]) {
        const ended = await run('once');
        expect(ended.exitCode, ended.stdout + ended.stderr).toBe(0);
      }
      const [files, expected] = [manifestIn(inDatabase.folder).files, manifestIn(inFile.folder).files];
      expect(files.map(({ dataset }) => dataset)).toEqual(datasetIds.toSorted());
      for (const [index, file] of files.entries()) {
        const other = expected[index];
        const { appliedAt: _, bytes: __, file: ___, ...shown } = file;
        expect(other).toMatchObject({ ...shown, commit: expect.any(Number) });
        const content = await contentOf(join(inDatabase.folder, file.file));
        expect(content.rows).toHaveLength(file.rows);
        expect(content, file.dataset).toEqual(await contentOf(join(inFile.folder, other?.file ?? '')));
      }
    };
    await compare();
    const before = manifestIn(inDatabase.folder);
    publishNext(datasetOf('parcels'));
    await compare();
    const after = manifestIn(inDatabase.folder);
    expect([before.generation, after.generation]).toEqual([1, 2]);
    const kept = after.files.filter(({ file }) => before.files.some((earlier) => earlier.file === file));
    expect(kept).toHaveLength(datasetIds.length - 1);
    expect((await inDatabase.run('once')).stdout).not.toContain('Exported');
  });

  /** An installation that has exported its only table, whose file is then removed. */
  async function withLostFile(rowsPerDataset: number) {
    const { feed } = await countyFeed({ kinds: ['permits'], rowsPerDataset });
    const address = await server.database();
    const environment = { FEED_SYNC_DESTINATION_URL: address, PATH: process.env['PATH'] ?? '' };
    const { run, home, environment: variables } = localInstallation({ feed, environment });
    const folder = join(home, 'export');
    variables['FEED_SYNC_EXPORT_PATH'] = folder;
    expect(await run('once')).toMatchObject({ exitCode: 0 });
    const before = manifestIn(folder);
    const [exported] = before.files;
    rmSync(join(folder, exported?.file ?? ''));
    return { address, run, folder, before, table: exported?.table };
  }

  it('F77 an export whose COPY fails in the middle leaves the generation before, and the next one succeeds', async () => {
    const { address, run, folder, before, table } = await withLostFile(5_000);
    // In the place of the table stands a view that fails once it has given some of its rows.
    const live = `feeds."${table}"`;
    await statement(
      address,
      `ALTER TABLE ${live} RENAME TO hidden;
       CREATE VIEW ${live} AS SELECT h.* FROM feeds.hidden h
         WHERE 1 / (CASE WHEN h.ctid > '(20,0)' THEN 0 ELSE 1 END) = 1`,
    );
    const failed = await run('once');
    expect(failed.exitCode, failed.stdout).not.toBe(0);
    expect(failed.stdout).toContain('division by zero');
    expect(manifestIn(folder)).toEqual(before);
    await statement(address, `DROP VIEW ${live}; ALTER TABLE feeds.hidden RENAME TO "${table}"`);
    const mended = await run('once');
    expect(mended.exitCode, mended.stdout).toBe(0);
    expect(mended.stdout).toContain('Exported generation 2');
    expect((await contentOf(join(folder, manifestIn(folder).files[0]?.file ?? ''))).rows).toHaveLength(5_000);
  });

  it('F77 an export has a table that somebody dropped once that is loaded again', async () => {
    const { address, run, folder, table } = await withLostFile(5);
    await statement(address, `DROP TABLE feeds."${table}"`);
    const once = await run('once');
    expect(once.exitCode, once.stdout).toBe(0);
    expect((await contentOf(join(folder, manifestIn(folder).files[0]?.file ?? ''))).rows).toHaveLength(5);
  });

  it('F77 an export names a table that somebody dropped while it was about to be written', async () => {
    const world = await databaseAtWork(await server.database());
    await world.loaded(firstContent(PEOPLE, THREE_PEOPLE));
    await world.byHand('DROP TABLE feeds.parcels');
    await expect(
      world.database.writeTable('parcels', join(world.folder, 'parcels.parquet')),
    ).rejects.toMatchObject({
      code: 'export_failed',
      message: expect.stringContaining('The table parcels cannot be exported: relation'),
      hint: expect.stringContaining('feed-sync verify'),
    });
  });
});
