/** The contests of PostgreSQL: the program beside psql, in databases of one server, and tables that are compared. */

import { cp, mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { statement } from '../../fixtures/postgres-server.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { type Contest, type Sample, WrongResultError } from './case.ts';
import { alteredFiles, datasetFiles, type Recipe } from './dataset-files.ts';
import { type FeedProcess, startFeedProcess } from './feed-process.ts';
import { type Backlog, laterVersions, writeNetChange } from './later-versions.ts';
import { BenchServer, inOwn, measurePsql, type ServerKind } from './postgres-server.ts';
import {
  compareRows,
  psqlScript,
  rowsOf,
  runPsql,
  shapeOf,
  type TableShape,
  writeCsv,
} from './postgres-table.ts';
import { inFolder, measureProgram, type Settings } from './program-run.ts';

export const mirroredIn = (address: string): Settings => ({ FEED_SYNC_DESTINATION_URL: address });

/** What a run of the program left, for the other side. */
interface Left {
  readonly shape: TableShape;
  readonly rows: string;
}

/** First start with one dataset, beside `\copy` of the same rows from a ready file, with the same key and indexes. */
export async function firstLoadContest(recipe: Recipe, workspace: string): Promise<Contest> {
  const feed = await startFeedProcess(recipe, await datasetFiles(recipe));
  const server = await BenchServer.start();
  const csv = join(workspace, 'rows.csv');
  let left: Left | null = null;
  return {
    subject: () =>
      inEmpty(server, workspace, async (address, folder) => {
        const sample = await measureProgram(feed, await newData(folder), folder, mirroredIn(address));
        left ??= await leftIn(address, csv, folder);
        compareRows(left.rows, await rowsOf(address, left.shape));
        return sample;
      }),
    reference: () =>
      inEmpty(server, workspace, async (address, folder) => {
        const { shape, rows } = known(left);
        const lines = [
          'CREATE SCHEMA feeds',
          'BEGIN',
          shape.create,
          `\\copy ${shape.name} FROM '${csv}' (FORMAT csv)`,
          ...shape.finish,
          `ANALYZE ${shape.name}`,
          'COMMIT',
        ];
        const sample = await measurePsql(address, await psqlScript(folder, lines), folder);
        compareRows(rows, await rowsOf(address, shape));
        return sample;
      }),
    [Symbol.asyncDispose]: () => disposed(feed, server),
  };
}

/** First start with one dataset on the node of a coordinator with two workers, beside the same in PostgreSQL alone. */
export async function distributedLoadContest(recipe: Recipe, workspace: string): Promise<Contest> {
  const feed = await startFeedProcess(recipe, await datasetFiles(recipe));
  const [cluster, alone] = [await BenchServer.start('citus'), await BenchServer.start()];
  let rows: string | null = null;
  const loadedInto = (server: BenchServer): Promise<Sample> =>
    inEmpty(server, workspace, async (address, folder) => {
      const sample = await measureProgram(feed, await newData(folder), folder, mirroredIn(address));
      const found = await rowsOf(address, await shapeOf(address));
      rows ??= found;
      compareRows(rows, found);
      return sample;
    });
  return {
    subject: () => loadedInto(cluster),
    reference: () => loadedInto(alone),
    async [Symbol.asyncDispose]() {
      await disposed(feed, cluster);
      await alone[Symbol.asyncDispose]();
    },
  };
}

/** Catching up with the backlog, beside COPY of the net change from a ready file, UPDATE and INSERT. */
export async function catchUpContest(recipe: Recipe, backlog: Backlog, workspace: string): Promise<Contest> {
  const first = await firstVersion(recipe, workspace);
  const { feed, server, loaded } = first;
  const shape = await shapeOf(loaded);
  await feed.plan(recipe, backlog);
  await feed.publish(backlog.versions);
  const [dataset] = generateDatasets(recipe);
  if (dataset === undefined) throw new Error('the recipe has no dataset');
  const lines = join(workspace, 'net.ndjson');
  await writeNetChange(laterVersions(dataset, backlog), lines);
  const csv = join(workspace, 'net.csv');
  let rows: string | null = null;
  return {
    subject: () =>
      again(first, workspace, async (address, folder) => {
        if (rows === null) await writeChanged(address, shape, { lines, csv, folder });
        rows ??= await rowsOf(address, shape);
        compareRows(rows, await rowsOf(address, shape));
      }),
    reference: () =>
      inFolder(workspace, (folder) =>
        inOwn(server, server.copyOf(loaded), async (address) => {
          const script = await psqlScript(folder, merging(shape, csv));
          const sample = await measurePsql(address, script, folder);
          compareRows(known(rows), await rowsOf(address, shape));
          return sample;
        }),
      ),
    [Symbol.asyncDispose]: () => disposed(feed, server),
  };
}

/** A reload of which one row in so many differs, beside `\copy` of the whole into an empty table with the same key and indexes. */
export async function reloadContest(recipe: Recipe, oneIn: number, workspace: string): Promise<Contest> {
  const first = await firstVersion(recipe, workspace);
  const { feed, server } = first;
  const shape = await shapeOf(first.loaded);
  const altered = await alteredFiles(recipe, oneIn);
  const csv = join(workspace, 'altered.csv');
  let rows: string | null = null;
  return {
    async subject() {
      await feed.publishFiles(altered);
      return await again(first, workspace, async (address, folder) => {
        if (rows === null) await writeCsv(address, shape, csv, folder);
        rows ??= await rowsOf(address, shape);
        compareRows(rows, await rowsOf(address, shape));
      });
    },
    reference: () =>
      inEmpty(server, workspace, async (address, folder) => {
        await runPsql(address, folder, ['CREATE SCHEMA feeds', shape.create, ...shape.finish]);
        const script = await psqlScript(folder, [`\\copy ${shape.name} FROM '${csv}' (FORMAT csv)`]);
        const sample = await measurePsql(address, script, folder);
        compareRows(known(rows), await rowsOf(address, shape));
        return sample;
      }),
    [Symbol.asyncDispose]: () => disposed(feed, server),
  };
}

/** First start with many datasets; nothing to compare with. */
export async function manyContest(recipe: Recipe, workspace: string): Promise<Contest> {
  const datasets = await datasetFiles(recipe);
  const feed = await startFeedProcess(recipe, datasets);
  const server = await BenchServer.start();
  const expected = datasets.reduce((sum, { rowCount }) => sum + rowCount, 0);
  return {
    subject: () =>
      inEmpty(server, workspace, async (address, folder) => {
        const sample = await measureProgram(feed, await newData(folder), folder, mirroredIn(address));
        const [found] = await statement(
          address,
          'SELECT count(*), sum(row_count) FROM feed_sync.datasets WHERE version = 1',
        );
        const expectedCounts = [datasets.length, expected].join(' ');
        if (found?.join(' ') !== expectedCounts)
          throw new WrongResultError(`There are ${found} instead of ${expectedCounts}.`);
        return await withSize(sample, address);
      }),
    reference: null,
    [Symbol.asyncDispose]: () => disposed(feed, server),
  };
}

interface FirstVersion {
  readonly feed: FeedProcess;
  readonly server: BenchServer;
  /** The database with the first version, and the data directory beside it. */
  readonly loaded: string;
  readonly data: string;
}

export async function firstVersion(
  recipe: Recipe,
  workspace: string,
  kind: ServerKind = 'alone',
): Promise<FirstVersion> {
  const feed = await startFeedProcess(recipe, await datasetFiles(recipe));
  const server = await BenchServer.start(kind);
  const data = await newData(workspace);
  const loaded = await server.empty();
  await measureProgram(feed, data, workspace, mirroredIn(loaded));
  return { feed, server, loaded, data };
}

/** Does the work beside an empty database, and in a folder that is removed after it. */
function inEmpty<T>(
  server: BenchServer,
  workspace: string,
  work: (address: string, folder: string) => Promise<T>,
): Promise<T> {
  return inFolder(workspace, (folder) => inOwn(server, server.empty(), (address) => work(address, folder)));
}

/** Runs the program on a copy of the first version. */
function again(
  { feed, server, loaded, data }: FirstVersion,
  workspace: string,
  compare: (address: string, folder: string) => Promise<void>,
): Promise<Sample> {
  return inFolder(workspace, (folder) =>
    inOwn(server, server.copyOf(loaded), async (address) => {
      const copy = join(folder, 'data');
      // The pipe of the program is no file.
      await cp(data, copy, { recursive: true, filter: (path) => basename(path) !== 'postgres.pipe' });
      const run = await measureProgram(feed, copy, folder, mirroredIn(address));
      const sample = await withSize(run, address);
      await compare(address, folder);
      return sample;
    }),
  );
}

const BYTES_PER_MEGABYTE = 1_000_000;

/** With the size of the database, of which an empty one with PostGIS takes some megabytes. */
async function withSize(sample: Sample, address: string): Promise<Sample> {
  const [[bytes] = []] = await statement(address, 'SELECT pg_database_size(current_database())');
  return { ...sample, counts: { ...sample.counts, mirrorMegabytes: Number(bytes) / BYTES_PER_MEGABYTE } };
}

/** Writes the rows that the backlog has changed as CSV: those of the mirror whose keys are in the file of JSON lines. */
async function writeChanged(
  address: string,
  shape: TableShape,
  { lines, csv, folder }: { readonly lines: string; readonly csv: string; readonly folder: string },
): Promise<void> {
  const [key = ''] = shape.keys;
  await runPsql(address, folder, [
    'CREATE TABLE public.net_lines (line jsonb)',
    // Of a line of JSON these two are no part.
    `\\copy public.net_lines FROM '${lines}' (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')`,
  ]);
  const keys = `SELECT line ->> '${key.replaceAll('"', '')}' FROM public.net_lines`;
  await writeCsv(address, shape, csv, folder, `WHERE t.${key} IN (${keys})`);
}

function merging({ name, columns, keys }: TableShape, csv: string): readonly string[] {
  const same = keys.map((key) => `t.${key} = n.${key}`).join(' AND ');
  const set = columns.filter((column) => !keys.includes(column)).map((column) => `${column} = n.${column}`);
  return [
    'BEGIN',
    `CREATE TEMPORARY TABLE net (LIKE ${name}) ON COMMIT DROP`,
    `\\copy net FROM '${csv}' (FORMAT csv)`,
    'ANALYZE net',
    `UPDATE ${name} AS t SET ${set.join(', ')} FROM net AS n WHERE ${same}`,
    `INSERT INTO ${name} SELECT * FROM net AS n WHERE NOT EXISTS (SELECT 1 FROM ${name} AS t WHERE ${same})`,
    'COMMIT',
  ];
}

async function leftIn(address: string, csv: string, folder: string): Promise<Left> {
  const shape = await shapeOf(address);
  await writeCsv(address, shape, csv, folder);
  return { shape, rows: await rowsOf(address, shape) };
}

function known<T>(left: T | null): T {
  if (left === null) throw new WrongResultError('The program has not run before psql.');
  return left;
}

async function newData(folder: string): Promise<string> {
  const data = join(folder, 'data');
  await mkdir(data, { mode: 0o700 });
  return data;
}

export async function disposed(feed: FeedProcess, server: BenchServer): Promise<void> {
  await feed[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
}
