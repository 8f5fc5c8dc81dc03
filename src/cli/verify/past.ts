/**
 * The findings of `verify` about undo logs, the tables that froze with them, and archived tables. It asks the program that writes the
 * mirror to store missing checksums and to close altered logs, and writes nothing itself.
 */

import type { Configuration } from '../../configuration/configuration.ts';
import type { ComparedPastTable } from '../../destination/past-tables.ts';
import type { CountedDataset } from '../../destination/reader.ts';
import { printable } from '../../lib/text.ts';
import type { Context } from '../context.ts';
import type { Findings } from './findings.ts';
import { mended } from './mend.ts';

/** Returns the findings with what was stored and closed. */
export async function renewed(
  findings: Findings,
  configuration: Configuration,
  context: Context,
): Promise<Findings> {
  const { datasets, past, files } = findings;
  // The next catch-up copies what can be read into a new file first.
  if (files.endingProcess.size > 0) return findings;
  const ofTables = datasets.flatMap(({ datasetId, counted, mending }) =>
    counted !== null && mending === null && isUnrecorded(counted) ? datasetId : [],
  );
  const ofPast = past.filter(isRenewed).map(({ datasetId }) => datasetId);
  const datasetIds = [...new Set([...ofTables, ...ofPast])];
  const [first] = datasetIds;
  if (first === undefined) return findings;
  const unreadable = past.filter(({ state }) => state === 'damaged').map(placeOf);
  const parameters = { datasetIds, unreadable };
  const renewal = await mended(first, { command: 'renew-checksums', parameters }, configuration, context);
  return { ...findings, renewal };
}

/** The rows and columns are those of the catalog, as far as it knows them. */
function isUnrecorded({ observed, table }: CountedDataset): boolean {
  return (
    table !== null &&
    table.hasRecordedChecksum === null &&
    table.strayColumns.length === 0 &&
    table.rowCount === observed.rowCount
  );
}

function isRenewed({ state, logName }: ComparedPastTable): boolean {
  return state === 'unrecorded' || state === 'damaged' || (state !== 'equal' && logName !== null);
}

export function isWrong({ state }: ComparedPastTable): boolean {
  return state === 'altered' || state === 'missing' || state === 'damaged';
}

type PastJson = ReturnType<typeof pastJson>;

export function pastJson(table: ComparedPastTable) {
  const { datasetId, kind, state } = table;
  return { dataset: datasetId, table: placeOf(table), kind, result: state, ...describe(table) };
}

export function pastLines({ dataset, message, remedy }: PastJson): readonly string[] {
  if (message === null) return [];
  const lines = [`${dataset}: ${message}`, ...(remedy === null ? [] : [`  → ${remedy}`])];
  return [lines.map(printable).join('\n')];
}

function placeOf({ schema, name }: ComparedPastTable): string {
  return `${schema}.${name}`;
}

const WHAT: Readonly<Record<ComparedPastTable['kind'], string>> = {
  log: 'The undo log',
  frozen: 'The earlier table',
  archived: 'The archived table',
};

function describe(table: ComparedPastTable): {
  readonly message: string | null;
  readonly remedy: string | null;
} {
  const { kind, state, damage } = table;
  const what = `${WHAT[kind]} ${placeOf(table)}`;
  const messages: Readonly<Record<ComparedPastTable['state'], string | null>> = {
    equal: null,
    unrecorded: null,
    altered: `${what} was altered outside feed-sync: its rows are not those that were written.`,
    missing: `${what} is missing, though feed_sync.history_logs lists it.`,
    damaged: `${what} is damaged and cannot be read: ${damage}`,
  };
  const message = messages[state];
  if (message === null) return { message, remedy: null };
  const remedy =
    kind === 'archived'
      ? 'Take it from a backup, or drop it: the service does not have it any more.'
      : 'States before it are not known any more: as-of is an error there.';
  return { message, remedy };
}
