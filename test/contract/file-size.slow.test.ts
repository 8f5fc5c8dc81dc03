/**
 * How large the mirror's file becomes by months of work, and what `compact` makes of it: 100 reloads of 20,000 polygons, then
 * 1,000 versions of 50 rows in 100 catch-ups, by the real destination.
 */

import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { Destination } from '../../src/destination/destination.ts';
import type { ChangesJob, ObservedTable, WriteJob } from '../../src/model/write-jobs.ts';
import { pageOf } from '../support/change-pages.ts';
import { commitAll } from '../support/commit-all.ts';
import { compactAt } from '../support/compacting.ts';
import { column, duckdb, mirrorIn, parquet, snapshot, temporaryFolder } from '../support/duckdb-mirror.ts';
import { mirrorDump } from '../support/mirror-dump.ts';

const ROWS = 20_000;
const RELOADS = 100;
const CATCH_UPS = 100;
const VERSIONS_OF_A_CATCH_UP = 10;
const ROWS_OF_A_VERSION = 50;
/** Larger than a fresh mirror of the same content. */
const MOST_TIMES = 2.5;
const MOST_TIMES_COMPACTED = 1.3;
/** Coprime to the number of rows: every row has its turn, and no two of a catch-up are neighbours. */
const STRIDE = 7_919;

const COLUMNS = [
  column('id', 'integer', { nullable: false }),
  column('owner', 'string'),
  column('value', 'integer'),
  column('shape', 'geometry'),
];
const ENROLMENT = {
  origin: 'https://feed.example',
  subscriptionIds: ['sub_1'],
  forgottenSubscriptionIds: [],
  datasetIds: ['parcels'],
};

/** Polygons of 9 positions that no compression makes small. */
function polygon(id: string, salt: number): string {
  const at = (corner: number, axis: number) =>
    `(hash(${id}, ${corner}, ${axis}, ${salt}) % 1_000_000_000) / 1e7`;
  const corners = [0, 1, 2, 3, 4, 5, 6, 7, 0].map((corner) => `${at(corner, 0)} || ' ' || ${at(corner, 1)}`);
  return `'POLYGON ((' || ${corners.join(" || ', ' || ")} || '))'`;
}

function rowsOf(salt: number, shape: (text: string) => string): string {
  return `SELECT i AS id, 'owner ' || hash(i, ${salt}) AS owner, (hash(i, ${salt}) % 100_000)::BIGINT AS "value",
    ${shape(polygon('i', salt))} AS shape FROM range(${ROWS}) r(i)`;
}

async function newMirror(folder: string): Promise<Destination> {
  const mirror = await mirrorIn(folder);
  onTestFinished(() => mirror.close());
  await mirror.enroll(ENROLMENT);
  return mirror;
}

async function commit(mirror: Destination, job: WriteJob): Promise<void> {
  const [outcome] = await commitAll(mirror, [await mirror.validate(job)]);
  expect(outcome).toMatchObject({ kind: 'committed' });
}

async function lockHolders(mirror: Destination): Promise<ObservedTable | null> {
  return (await mirror.has()).datasets.get('parcels') ?? null;
}

async function load(mirror: Destination, file: string): Promise<void> {
  const plannedFrom = await lockHolders(mirror);
  const version = (plannedFrom?.version ?? 0) + 1;
  await commit(
    mirror,
    snapshot({
      columns: COLUMNS,
      keyColumns: ['id'],
      files: [file],
      version,
      digest: `${version}`,
      plannedFrom,
    }),
  );
}

/** The changes of the next versions: so many rows of each, all over the table. */
function changesAfter(observed: ObservedTable, rows: readonly string[], folder: string): ChangesJob {
  const versions = Array.from({ length: VERSIONS_OF_A_CATCH_UP }, (_, step) => {
    const version = observed.version + step + 1;
    const changes = Array.from({ length: ROWS_OF_A_VERSION }, (_, index) => {
      const row = rows[((version * ROWS_OF_A_VERSION + index) * STRIDE) % ROWS];
      return `{"op":"changed","row":${row}}`;
    });
    const path = join(folder, `page-${step}.json`);
    writeFileSync(path, pageOf(changes));
    return { version, pages: [path], counts: null, rowCount: ROWS };
  });
  const { schema } = snapshot({ columns: COLUMNS, keyColumns: ['id'], files: [] });
  const version = observed.version + VERSIONS_OF_A_CATCH_UP;
  return {
    kind: 'changes',
    fetched: { bytes: 1, elapsedMs: () => 0 },
    datasetId: 'parcels',
    version,
    publishedAt: null,
    schema,
    addsColumns: false,
    versions,
    plannedFrom: observed,
  };
}

it('the mirror has at most 2.5 times its fresh size after 100 reloads and 1,000 versions, and 1.3 times once compacted', async () => {
  await using folder = await temporaryFolder();
  await using freshFolder = await temporaryFolder();
  const path = join(folder.path, 'mirror.duckdb');
  const files = [
    await parquet(
      folder.path,
      'odd.parquet',
      rowsOf(1, (text) => `ST_AsWKB((${text})::GEOMETRY)`),
    ),
    await parquet(
      folder.path,
      'even.parquet',
      rowsOf(2, (text) => `ST_AsWKB((${text})::GEOMETRY)`),
    ),
  ];
  const mirror = await newMirror(folder.path);
  const sizes: number[] = [];
  for (let reload = 0; reload <= RELOADS; reload += 1) {
    await load(mirror, files[reload % 2] ?? '');
    sizes.push(statSync(path).size);
  }
  const reloaded = Math.max(...sizes);

  const pages = join(folder.path, 'pages');
  mkdirSync(pages);
  const rows = (
    await duckdb(`SELECT to_json(r)::VARCHAR FROM (${rowsOf(3, (text) => text)}) r ORDER BY id`)
  ).map(([row]) => String(row));
  for (let step = 0; step < CATCH_UPS; step += 1) {
    const observed = await lockHolders(mirror);
    if (observed === null) throw new Error('there is a table');
    await commit(mirror, changesAfter(observed, rows, pages));
    sizes.push(statSync(path).size);
  }
  const worked = statSync(path).size;

  const content = join(freshFolder.path, 'content.parquet');
  const all = 'SELECT id, owner, "value", ST_AsWKB(shape) AS shape FROM m.main.parcels';
  await duckdb(`ATTACH '${path}' AS m (READ_ONLY)`, `COPY (${all}) TO '${content}' (FORMAT parquet)`);
  const fresh = await newMirror(freshFolder.path);
  await load(fresh, content);
  const freshBytes = statSync(join(freshFolder.path, 'mirror.duckdb')).size;

  const before = await mirrorDump(path);
  await compactAt(path);
  expect(await mirrorDump(path)).toEqual(before);
  const compacted = statSync(path).size;
  const seen = `fresh ${freshBytes}, reloaded ${reloaded}, worked on ${worked}, compacted ${compacted}`;
  expect(Math.max(...sizes) / freshBytes, seen).toBeLessThanOrEqual(MOST_TIMES);
  expect(worked / freshBytes, `${seen}: nothing that compacting could be measured by`).toBeGreaterThan(
    MOST_TIMES_COMPACTED,
  );
  expect(compacted / freshBytes, seen).toBeLessThanOrEqual(MOST_TIMES_COMPACTED);
});
