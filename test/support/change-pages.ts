/** Changes folded without a mirror: pages as text, and the net change as values that lose nothing. */

import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Column, ColumnType } from '../../src/model/records.ts';
import type { ChangesJob, ObservedColumn, ReadAhead, VersionChanges } from '../../src/model/write-jobs.ts';
import { netColumn, PRESENT } from '../../src/staging/changes/columns.ts';
import { readAhead } from '../../src/staging/changes/decode.ts';
import { coalesceChanges, type NetChange, netRows } from '../../src/staging/changes/net-change.ts';
import { Engine } from '../../src/staging/engine/engine.ts';
import { exactText } from './exact-mirror.ts';
import { schema } from './sync-values.ts';

export interface ChangeFolder {
  /** Folds the changes of versions 2, 3, …: a list of pages for each. */
  coalesce(table: ChangesTable, ...versions: readonly WrittenVersion[]): Promise<Folded>;
  /** What foldChanges throws. */
  refusal(table: ChangesTable, ...versions: readonly WrittenVersion[]): Promise<Error>;
  readonly engine: Engine;
  close(): Promise<void>;
}

export interface ChangesTable {
  /** Of how many versions the parts are that are read before the whole is folded, from the first on; none by default. */
  readonly ahead?: readonly number[];
  /** As what the parts are read; as the whole by default. */
  readonly aheadAs?: Partial<ChangesJob>;
  readonly columns: readonly Column[];
  readonly keyColumns?: readonly string[];
  readonly envelopeColumns?: readonly Column[];
  /** Names of columns that the table lacks. */
  readonly lacks?: readonly string[];
  readonly crs?: string | null;
  readonly rowCount?: number;
  readonly job?: Partial<ChangesJob>;
}

/** The changes of one version, as lists of texts, one for each page; or whole pages as they are. */
export interface WrittenVersion extends Partial<Omit<VersionChanges, 'pages'>> {
  readonly changes?: readonly (readonly string[])[];
  readonly pages?: readonly (string | Uint8Array)[];
}

export interface Folded {
  readonly net: NetChange;
  /** The rows in the order of their keys: whether it is there, then each column as the text that says it exactly. */
  readonly rows: readonly (readonly (string | boolean | null)[])[];
}

export async function changeFolder(
  options: { readonly memoryLimitBytes?: number } = {},
): Promise<ChangeFolder> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'feed-sync-changes-')));
  const engine = await Engine.open({
    memoryLimitBytes: 500_000_000,
    threads: 1,
    temporaryDirectory: join(folder, 'temporary'),
    directories: [folder],
    ...options,
  });
  let folds = 0;
  async function net(table: ChangesTable, versions: readonly WrittenVersion[]): Promise<NetChange> {
    folds += 1;
    const written: VersionChanges[] = [];
    for (const [step, { changes = [], pages = changes.map(pageOf), ...stated }] of versions.entries()) {
      // DuckDB expands patterns in paths.
      const directory = join(folder, `${folds} [a-z]*?'`, `${step}`);
      await mkdir(directory, { recursive: true });
      const paths = pages.map((_, index) => join(directory, `changes-${index}.json`));
      for (const [index, page] of pages.entries()) await writeFile(paths[index] ?? '', page);
      written.push({ version: step + 2, counts: null, rowCount: null, ...stated, pages: paths });
    }
    const job = changesJob(table, written);
    return await coalesceChanges(engine, { ...job, ahead: await readParts(engine, job, table) });
  }
  return {
    engine,
    async coalesce(table, ...versions) {
      const folded = await net(table, versions);
      return { net: folded, rows: await exactRows(engine, folded) };
    },
    async refusal(table, ...versions) {
      const outcome = await net(table, versions).catch((error: unknown) => error);
      if (outcome instanceof Error) return outcome;
      throw new TypeError(`The changes should have been refused, but are ${JSON.stringify(outcome)}`);
    },
    async close() {
      engine.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Up to the first part that cannot be read. */
async function readParts(
  engine: Engine,
  job: ChangesJob,
  { ahead = [], aheadAs = {} }: ChangesTable,
): Promise<readonly ReadAhead[]> {
  const parts: ReadAhead[] = [];
  let first = 0;
  for (const count of ahead) {
    const versions = job.versions.slice(first, first + count);
    const part = versions.length === 0 ? null : await readAhead(engine, { ...job, ...aheadAs, versions });
    if (part === null) break;
    parts.push(part);
    first += versions.length;
  }
  return parts;
}

/** A page as the service writes it. */
export function pageOf(changes: readonly string[]): string {
  return `{"datasetId":"parcels","version":2,"recorded":true,"changes":[${changes.join(',')}],"nextCursor":null}`;
}

export function added(row: string): string {
  return `{"op":"added","row":${row}}`;
}

export function removed(key: string): string {
  return `{"op":"removed","key":${key}}`;
}

export function changesJob(table: ChangesTable, versions: readonly VersionChanges[]): ChangesJob {
  const { columns, keyColumns = ['id'], envelopeColumns = [], lacks = [], crs = 'OGC:CRS84' } = table;
  const observed =
    (role: ObservedColumn['role']) =>
    (column: Column): ObservedColumn => ({
      name: column.name,
      columnName: column.name,
      type: column.type as ColumnType,
      role: keyColumns.includes(column.name) ? 'key' : role,
      crs: column.type === 'geometry' ? crs : null,
    });
  return {
    kind: 'changes',
    fetched: { bytes: 1, elapsedMs: () => 0 },
    datasetId: 'parcels',
    version: versions.at(-1)?.version ?? 1,
    publishedAt: null,
    schema: schema('parcels', { firstVersion: null, columns, keyColumns, envelopeColumns }),
    addsColumns: false,
    versions,
    plannedFrom: {
      datasetId: 'parcels',
      schemaName: 'main',
      tableName: 'parcels',
      commitNumber: 1,
      version: 1,
      schemaVersion: '1',
      rowCount: table.rowCount ?? 100,
      keyColumns,
      snapshotVersion: 1,
      snapshotDigest: 'digest',
      digestKind: 'stated',
      loadedThrough: null,
      loadedAt: null,
      publishedAt: null,
      appliedAt: new Date(0),
      pinnedSince: null,
      columns: [...columns.map(observed('data')), ...envelopeColumns.map(observed('envelope'))].filter(
        ({ name }) => !lacks.includes(name),
      ),
      reloads: new Map(),
    },
    ...table.job,
  };
}

async function exactRows(engine: Engine, net: NetChange): Promise<Folded['rows']> {
  const values = net.columns.map(
    ({ type }, position) => `hex(encode(${exactText(type, netColumn(position))}))`,
  );
  const rows = await engine.rows(
    `SELECT ${[PRESENT, ...values].join(', ')} FROM ${netRows(net)} ORDER BY ALL`,
  );
  return rows.map(([present, ...cells]) => [
    present === true,
    ...cells.map((cell) => (cell === null ? null : Buffer.from(String(cell), 'hex').toString('utf8'))),
  ]);
}
