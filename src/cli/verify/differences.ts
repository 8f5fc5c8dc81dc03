/**
 * Compares a table of the mirror with the mirror's catalog (pure) and with the service's statements about its version.
 * Every difference
 * names the command that mends it.
 */

import pLimit from 'p-limit';
import type { ObservedState } from '../../destination/destination.ts';
import type { CountedDataset, CountedKeys, StrayColumn } from '../../destination/duckdb/count-tables.ts';
import type { Feed } from '../../feed/feed.ts';
import { shellWord } from '../../lib/text.ts';
import { formatCount } from '../../lib/units.ts';
import { FeedSyncError, InterruptedError, RefusalError } from '../../model/errors.ts';
import type { Version } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { refuseForeignMirror } from '../../sync/follow/subscriptions.ts';

export interface Difference {
  readonly kind: DifferenceKind;
  /** For people. */
  readonly message: string;
  /** The command that mends it. */
  readonly remedy: string;
}

type DifferenceKind =
  /** The dataset is desired, and has no table yet. */
  | 'not-loaded'
  /** The service lists newer versions. */
  | 'behind'
  /** No subscription contains the dataset any more. */
  | 'not-desired'
  /** The catalog lists the table, and the mirror has no such table. */
  | 'table-missing'
  /** The table has another number of rows than the catalog. */
  | 'row-count'
  /** Rows lack a part of their key. */
  | 'key-null'
  /** Several rows have the same key. */
  | 'key-repeated'
  /** A column is missing, is surplus, or has another type than in the catalog. */
  | 'column'
  /** The rows are not those that were committed, though their number is right. */
  | 'checksum'
  /** The service states another number of rows for the mirrored version. */
  | 'service-row-count'
  /** The service states another schema version for the mirrored version. */
  | 'service-schema'
  /** The service lists neither the mirrored version nor a newer one. */
  | 'service-version';

const CATCH_UP = 'feed-sync once';

export function notLoaded(): Difference {
  return { kind: 'not-loaded', message: 'It is wanted, and has no table yet.', remedy: CATCH_UP };
}

/** `isApprovalAwaited`: so many tables are to be retired that an operator has to approve. */
export function notWanted(isApprovalAwaited: boolean): Difference {
  const message = 'No subscription contains it any more: its table will be retired.';
  return { kind: 'not-desired', message, remedy: isApprovalAwaited ? 'feed-sync resume --retire' : CATCH_UP };
}

/** Compares the counted table with its entry in the mirror's catalog. */
export function differencesFromCatalog({ observed, table }: CountedDataset): readonly Difference[] {
  const { datasetId, tableName, rowCount } = observed;
  const found: (Omit<Difference, 'remedy'> | null)[] =
    table === null
      ? [
          {
            kind: 'table-missing',
            message: `The mirror has no table ${tableName}, though feed_sync.datasets lists it.`,
          },
        ]
      : [
          table.rowCount === rowCount
            ? null
            : {
                kind: 'row-count',
                message: `The table ${tableName} has ${rows(table.rowCount)}, and feed_sync.datasets says ${formatCount(rowCount)}.`,
              },
          ...(table.keys === null ? [] : keyDifferences(tableName, table.keys)),
          ...table.strayColumns.map((column) => columnDifference(tableName, column)),
          // Other rows of another number are no news.
          table.hasRecordedChecksum === false && table.rowCount === rowCount
            ? {
                kind: 'checksum',
                message: `The rows of the table ${tableName} are not those that were committed: their checksum differs.`,
              }
            : null,
        ];
  return found.flatMap((difference) =>
    difference === null ? [] : { ...difference, remedy: reload(datasetId) },
  );
}

function keyDifferences(
  tableName: string,
  { nullRows, repeatedRows, example }: CountedKeys,
): readonly (Omit<Difference, 'remedy'> | null)[] {
  const key = [...(example ?? [])].map(([name, value]) => `${name} = ${value ?? 'null'}`).join(', ');
  return [
    nullRows === 0
      ? null
      : { kind: 'key-null', message: `The table ${tableName} has ${rows(nullRows)} without a whole key.` },
    repeatedRows === 0
      ? null
      : {
          kind: 'key-repeated',
          message: `The table ${tableName} has ${rows(repeatedRows)} with the key of another row, such as ${key}.`,
        },
  ];
}

function columnDifference(
  tableName: string,
  { columnName, expected, found }: StrayColumn,
): Omit<Difference, 'remedy'> {
  const column = `${JSON.stringify(columnName)} of the table ${tableName}`;
  const message =
    found === null
      ? `The column ${column} is missing.`
      : expected === null
        ? `The column ${column} is not listed in feed_sync.columns.`
        : `The column ${column} is of type ${found}, and should be ${expected}.`;
  return { kind: 'column', message };
}

/** Compares the catalog's entry with the versions that the service lists from the mirrored one on. */
export function differencesFromService(
  observed: ObservedTable,
  versions: readonly Version[],
): readonly Difference[] {
  const { datasetId, version: mirrored } = observed;
  const record = versions.find(({ version }) => version === mirrored) ?? null;
  const newer = versions.filter(({ version }) => version > mirrored).length;
  const differences: Difference[] = [];
  if (newer > 0) {
    const newest = Math.max(...versions.map(({ version }) => version));
    const distance = newer === 1 ? '1 version' : `${formatCount(newer)} versions`;
    const message = `Version ${newest} is out, ${distance} after the mirrored ${mirrored}.`;
    differences.push({ kind: 'behind', message, remedy: CATCH_UP });
  }
  if (record === null && newer === 0) {
    const message = `The service lists no version ${mirrored}, nor a newer one.`;
    differences.push({ kind: 'service-version', message, remedy: reload(datasetId) });
  }
  if (record === null) return differences;
  if (record.rowCount !== null && record.rowCount !== observed.rowCount) {
    const own = formatCount(observed.rowCount);
    const message = `The service says that version ${mirrored} has ${rows(record.rowCount)}; ${own} were mirrored.`;
    differences.push({ kind: 'service-row-count', message, remedy: reload(datasetId) });
  }
  if (record.schemaVersion !== null && record.schemaVersion !== observed.schemaVersion) {
    const own = observed.schemaVersion ?? 'an unknown one';
    const message = `The service says that version ${mirrored} has the schema ${record.schemaVersion}; the table has ${own}.`;
    differences.push({ kind: 'service-schema', message, remedy: CATCH_UP });
  }
  return differences;
}

function reload(datasetId: string): string {
  return `feed-sync resync ${shellWord(datasetId)}`;
}

function rows(count: number): string {
  return count === 1 ? '1 row' : `${formatCount(count)} rows`;
}

/** The number of connections to the service is limited separately. */
const DATASETS_AT_ONCE = 16;

export interface Answers {
  /** By dataset id: its versions from the mirrored one on, or why there is no answer. Absent where the service was not asked. */
  readonly ofDatasets: ReadonlyMap<string, readonly Version[] | FeedSyncError>;
  /** Why the service could not be asked, or not about all datasets; null where it could. */
  readonly problem: FeedSyncError | null;
}

/** The facts that tell the mirror of this service from a foreign one. */
export interface Ownership {
  readonly observed: ObservedState;
  /** Subscriptions that an operator gave up. */
  readonly forgotten: readonly string[];
}

/** Asks the service about each of the tables. @throws InterruptedError */
export async function askService(
  feed: Feed,
  { observed, forgotten }: Ownership,
  tables: readonly ObservedTable[],
  signal: AbortSignal,
): Promise<Answers> {
  const ofDatasets = new Map<string, readonly Version[] | FeedSyncError>();
  let problem: FeedSyncError | null = null;
  try {
    // Listed first: an unreachable service, or a refused key, costs only this one call.
    const { subscriptions: seen } = await feed.subscriptions(signal);
    await feed.discover(signal);
    refuseForeignMirror(observed, feed.origin, seen, forgotten);
  } catch (error) {
    return { ofDatasets, problem: reported(error) };
  }
  await pLimit(DATASETS_AT_ONCE).map(tables, async ({ datasetId, version }) => {
    if (problem !== null) return;
    try {
      const { versions } = await feed.versions(datasetId, version - 1, signal);
      ofDatasets.set(datasetId, versions);
    } catch (error) {
      const answer = reported(error);
      if (isOfTheWorkspace(answer)) problem = answer;
      else ofDatasets.set(datasetId, answer);
    }
  });
  return { ofDatasets, problem };
}

function isOfTheWorkspace(error: FeedSyncError): boolean {
  return error instanceof RefusalError && error.refusal.scope.kind !== 'dataset';
}

/** @throws every error that the service did not cause: an interruption, a bug. */
function reported(error: unknown): FeedSyncError {
  if (error instanceof FeedSyncError && !(error instanceof InterruptedError)) return error;
  throw error;
}
