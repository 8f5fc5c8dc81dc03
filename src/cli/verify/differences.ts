/**
 * What is wrong with a table of the mirror, in plain words and with the command that does away with it: by its own
 * books, and by what the service says. Pure.
 */

import type { HeldDataset } from '../../destination/destination.ts';
import type {
  CountedDataset,
  CountedKeys,
  StrayColumn,
} from '../../destination/duckdb/reading/count-tables.ts';
import { shellWord } from '../../lib/shell-word.ts';
import { formatCount } from '../../lib/units.ts';
import type { Version } from '../../model/version.ts';

export interface Difference {
  readonly kind: DifferenceKind;
  /** For people. */
  readonly message: string;
  /** The command that does away with it. */
  readonly remedy: string;
}

export type DifferenceKind =
  /** Wanted, and there is no table yet. */
  | 'not-loaded'
  /** Newer versions are out. */
  | 'behind'
  /** No subscription holds it any more. */
  | 'not-wanted'
  /** It is written down, and the mirror has no such table. */
  | 'table-missing'
  /** The table has other rows than are written down. */
  | 'row-count'
  /** Rows lack a part of their key. */
  | 'key-null'
  /** Rows share their key. */
  | 'key-repeated'
  /** A column is missing, is one too many, or has another type than is written down. */
  | 'column'
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

/** `isApprovalAwaited`: so many tables are to be retired that a person has to agree. */
export function notWanted(isApprovalAwaited: boolean): Difference {
  const message = 'No subscription holds it any more: its table is to be retired.';
  return { kind: 'not-wanted', message, remedy: isApprovalAwaited ? 'feed-sync resume --retire' : CATCH_UP };
}

/** The table as it is, against what is written of it in the mirror. */
export function differencesFromBooks({ held, table }: CountedDataset): readonly Difference[] {
  const { datasetId, tableName, rowCount } = held;
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

/** What is written of the table, against the versions that the service lists from the mirrored one on. */
export function differencesFromService(
  held: HeldDataset,
  versions: readonly Version[],
): readonly Difference[] {
  const { datasetId, version: mirrored } = held;
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
  if (record.rowCount !== null && record.rowCount !== held.rowCount) {
    const message = `The service says that version ${mirrored} has ${rows(record.rowCount)}; ${formatCount(held.rowCount)} were mirrored.`;
    differences.push({ kind: 'service-row-count', message, remedy: reload(datasetId) });
  }
  if (record.schemaVersion !== null && record.schemaVersion !== held.schemaVersion) {
    const own = held.schemaVersion ?? 'an unknown one';
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
