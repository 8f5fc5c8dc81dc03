/**
 * The net change of many versions equals the versions applied one by one, and a model that knows nothing of
 * SQL: in the rows, in the counts, and in the history (V12, C12, C15, C16).
 */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import type { SourceSchema } from '../../fixtures/source/content.ts';
import { columnsOf } from '../../fixtures/source/wire.ts';
import type { Destination } from '../../src/destination/destination.ts';
import type { RowDifference } from '../../src/model/commits.ts';
import type { Counts } from '../../src/model/records.ts';
import type { ChangesJob, ObservedTable, SnapshotJob } from '../../src/model/write-jobs.ts';
import { textOfCell, textOfMirrored } from '../support/cell-text.ts';
import { commitAll } from '../support/commit-all.ts';
import { firstContent, publishedCourse } from '../support/duckdb-changes.ts';
import { mirrorIn, temporaryFolder } from '../support/duckdb-mirror.ts';
import { exactText, identifier, literal, openExactly } from '../support/exact-mirror.ts';
import { type Backlog, backlogs, type WrittenVersion } from './backlogs.ts';
import { property } from './property.ts';

type Texts = readonly (string | null)[];

/** A part of the ids of the tables that are brought along version by version, and keep their history. */
const STEPPED = 'stepwise';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let mirror: Destination;
beforeAll(async () => {
  folder = await temporaryFolder();
  mirror = await mirrorIn(folder.path, {
    threads: 1,
    history: { keeps: (id) => id.includes(STEPPED), keepMs: Number.POSITIVE_INFINITY },
  });
  const service = {
    origin: 'https://feed.example',
    subscriptionIds: ['sub_1'],
    forgottenSubscriptionIds: [],
  };
  await mirror.enroll({ ...service, datasetIds: [] });
});
afterAll(async () => {
  await mirror.close();
  await folder[Symbol.asyncDispose]();
});

/** The rows of a table by key, and what a version, or several, make of them. */
class Model {
  readonly #keyOf: (row: Texts) => string;
  readonly rows: Map<string, Texts>;

  constructor({ schema, rows }: Backlog) {
    const columns = columnsOf(schema);
    const positions = schema.keyColumns.map((key) => columns.findIndex(({ name }) => name === key));
    this.#keyOf = (row) => JSON.stringify(positions.map((position) => row[position]));
    const texts = rows.map((row) => columns.map(({ type }, index) => textOfCell(type, row[index] ?? null)));
    this.rows = new Map(texts.map((row) => [this.#keyOf(row), row]));
  }

  /** Gives what came of it: how many of the named keys have a row now, had one before, and have another one than before. */
  apply(versions: readonly WrittenVersion[]): Counts {
    const before = new Map(this.rows);
    const named = new Set(versions.flatMap(({ happened }) => happened.map(({ key }) => key)));
    for (const { happened } of versions) {
      for (const { key, row } of happened) if (row === null) this.rows.delete(key);
      for (const { key, row } of happened) if (row !== null) this.rows.set(key, row);
    }
    const count = (had: boolean, has: boolean): number =>
      [...named].filter((key) => before.has(key) === had && this.rows.has(key) === has).length;
    const changed = [...named].filter((key) => {
      const [old, now] = [before.get(key), this.rows.get(key)];
      return old !== undefined && now !== undefined && JSON.stringify(old) !== JSON.stringify(now);
    });
    return { added: count(false, true), changed: changed.length, removed: count(true, false) };
  }
}

let tables = 0;

/** A table with the rows that come before the backlog. */
async function load({ schema, rows }: Backlog, how: string): Promise<SnapshotJob> {
  tables += 1;
  const course = publishedCourse(folder.path, firstContent(schema, rows), `table ${tables} ${how}`);
  return await course.snapshot(course.newest(), null);
}

async function observed(datasetId: string): Promise<ObservedTable> {
  const table = (await mirror.has()).datasets.get(datasetId);
  if (table === undefined) throw new Error(`${datasetId} is loaded`);
  return table;
}

/** Applies the versions from `first` on, in one write job. `rowsAfter` are the rows after each. */
async function apply(
  loaded: SnapshotJob,
  versions: readonly WrittenVersion[],
  first: number,
  rowsAfter: readonly number[],
): Promise<RowDifference | null> {
  const plannedFrom = await observed(loaded.datasetId);
  const written = versions.map(async ({ pages, listed, statesRows }, index) => {
    const directory = join(folder.path, 'pages', loaded.datasetId, `${first + index}`);
    await mkdir(directory, { recursive: true });
    const paths = pages.map((_, page) => join(directory, `${page}.json`));
    await Promise.all(
      paths.map((path, page) => writeFile(path, `{"changes":[${pages[page]?.join()}],"nextCursor":null}`)),
    );
    // What is listed adds up only where nothing was added that is there, or removed that is not.
    const known = versions
      .slice(0, index + 1)
      .reduce((sum, { listed: { added, removed } }) => sum + added - removed, plannedFrom.rowCount);
    const rowCount = rowsAfter[index] ?? null;
    const stated =
      statesRows && known === rowCount ? { counts: listed, rowCount } : { counts: null, rowCount: null };
    return { version: first + index, pages: paths, ...stated };
  });
  const job: ChangesJob = {
    kind: 'changes',
    fetched: { bytes: 1, elapsedMs: () => 0 },
    datasetId: loaded.datasetId,
    version: first + versions.length - 1,
    publishedAt: null,
    schema: loaded.schema,
    addsColumns: false,
    versions: await Promise.all(written),
    plannedFrom,
  };
  const [outcome] = await commitAll(mirror, [await mirror.validate(job)]);
  if (outcome?.kind !== 'committed')
    throw new Error(`the changes were not committed: ${outcome?.kind}`, { cause: outcome });
  expect(outcome.committed.rowCount).toBe(rowsAfter.at(-1));
  return outcome.committed.net;
}

/**
 * The rows of the table as text, in order; its columns are those of the schema, in their order. With a commit, the rows as they were
 * after it.
 */
async function mirrored(
  { datasetId }: SnapshotJob,
  schema: SourceSchema,
  asOf: number | null = null,
): Promise<readonly string[]> {
  const { tableName, columns } = await observed(datasetId);
  const expected = columnsOf(schema).filter(({ name }) => columns.some((each) => each.name === name));
  expect(columns.map(({ name, type }) => [name, type])).toEqual(
    expected.map(({ name, type }) => [name, type]),
  );
  const values = columns.map(
    ({ type, columnName }, index) => `${exactText(type, identifier(columnName))} AS c${index}`,
  );
  const file = await openExactly(join(folder.path, 'mirror.duckdb'));
  try {
    const source =
      asOf === null
        ? `main.${identifier(tableName)}`
        : `history.${identifier(`${tableName}_as_of_commit`)}(${asOf})`;
    const rows = await file.rows(`SELECT ${values.join(', ')} FROM ${source}`);
    return rows
      .map((row) =>
        JSON.stringify(row.map((text, index) => textOfMirrored(columns[index]?.type ?? 'string', text))),
      )
      .sort();
  } finally {
    file.close();
  }
}

async function commitNumbers({ datasetId }: SnapshotJob): Promise<readonly number[]> {
  const file = await openExactly(join(folder.path, 'mirror.duckdb'));
  try {
    const rows = await file.rows(`SELECT commit_number::VARCHAR FROM feed_sync.commits
      WHERE dataset_id = ${literal(datasetId)} ORDER BY commit_number`);
    return rows.map(([commit]) => Number(commit));
  } finally {
    file.close();
  }
}

/** The recorded checksum of the table, and that of its rows. */
async function checksums(datasetId: string): Promise<readonly Texts[]> {
  const { tableName } = await observed(datasetId);
  const file = await openExactly(join(folder.path, 'mirror.duckdb'));
  try {
    return await file.rows(`SELECT checksum::VARCHAR,
        (SELECT coalesce(sum(hash(hash(*COLUMNS(*)))), 0)::HUGEINT::VARCHAR FROM main.${identifier(tableName)})
      FROM feed_sync.datasets WHERE dataset_id = ${literal(datasetId)}`);
  } finally {
    file.close();
  }
}

async function history({ datasetId }: SnapshotJob): Promise<readonly Texts[]> {
  const file = await openExactly(join(folder.path, 'mirror.duckdb'));
  try {
    return await file.rows(`SELECT from_version::VARCHAR, to_version::VARCHAR, kind, added::VARCHAR, changed::VARCHAR,
      removed::VARCHAR FROM feed_sync.commits WHERE dataset_id = ${literal(datasetId)} ORDER BY rowid`);
  } finally {
    file.close();
  }
}

describe('the net change of several versions', () => {
  property(
    'applies the changes of many versions at once to the same rows and counts as one by one',
    4,
    fc.asyncProperty(backlogs, async (backlog) => {
      const { schema, versions } = backlog;
      const [coalesced, stepped] = [await load(backlog, 'at once'), await load(backlog, STEPPED)];
      const loads = await commitAll(mirror, [
        await mirror.validate(coalesced),
        await mirror.validate(stepped),
      ]);
      expect(loads).toMatchObject([{ kind: 'committed' }, { kind: 'committed' }]);

      const model = new Model(backlog);
      const rowsAfter: number[] = [];
      const states = [await mirrored(stepped, schema)];
      const lines: Texts[] = [[null, '1', 'load', null, null, null]];
      for (const [index, version] of versions.entries()) {
        const net = model.apply([version]);
        rowsAfter.push(model.rows.size);
        expect(await apply(stepped, [version], index + 2, [model.rows.size])).toEqual(net);
        const [[recorded, computed] = []] = await checksums(stepped.datasetId);
        expect(recorded).toBe(computed);
        states.push(await mirrored(stepped, schema));
        lines.push([
          `${index + 1}`,
          `${index + 2}`,
          'changes',
          ...[net.added, net.changed, net.removed].map(String),
        ]);
      }
      const net = new Model(backlog).apply(versions);
      expect(await apply(coalesced, versions, 2, rowsAfter)).toEqual(net);

      const expected = [...model.rows.values()].map((row) => JSON.stringify(row)).sort();
      expect(await mirrored(coalesced, schema)).toEqual(expected);
      expect(await mirrored(stepped, schema)).toEqual(expected);
      expect(await history(stepped)).toEqual(lines);
      for (const [index, commit] of (await commitNumbers(stepped)).entries()) {
        expect(await mirrored(stepped, schema, commit), `as of commit ${commit}`).toEqual(states[index]);
      }
      expect(await history(coalesced)).toEqual([
        lines[0],
        ['1', `${versions.length + 1}`, 'changes', ...[net.added, net.changed, net.removed].map(String)],
      ]);
    }),
  );
});
