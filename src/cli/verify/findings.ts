/**
 * Compares a table of the mirror with the mirror's catalog and with the service's statements about its version. Every
 * difference names the command that mends it. Pure.
 */

import type { Suspension } from '../../checkpoint/checkpoint.ts';
import type { ComparedPastTable } from '../../destination/past-tables.ts';
import type { CountedDataset, CountedKeys, StrayColumn } from '../../destination/reader.ts';
import { shellWord } from '../../lib/text.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { FeedSyncError } from '../../model/errors.ts';
import type { Version } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { suspensionJson } from '../../reporting/status.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf, mostUrgent } from '../exit-codes.ts';
import { incidentRaised } from '../render/messages.ts';
import {
  type ContentFinding,
  contentJson,
  differenceOfContent,
  exitCodeOfContent,
} from './content-findings.ts';
import { copyJson, type ExaminedFiles } from './examined.ts';
import type { Mending } from './mend.ts';
import { isWrong, pastJson } from './past.ts';

export interface Findings {
  readonly mirror: string;
  readonly datasets: readonly Finding[];
  readonly workspaceSuspension: Suspension | null;
  /** Undo logs, frozen and archived tables. */
  readonly past: readonly ComparedPastTable[];
  /** The result of storing checksums and closing logs; null where there was nothing to do. */
  readonly renewal: Mending | null;
  /** The findings of reading the files; none without `--deep`. */
  readonly files: ExaminedFiles;
  /** Why the service could not be asked, or not about all datasets; null where it could. */
  readonly problem: FeedSyncError | null;
}

export interface Finding {
  readonly datasetId: string;
  readonly comparison: Comparison;
  /** Null where the mirror has no such dataset. */
  readonly counted: CountedDataset | null;
  /** The versions from the mirrored one on, or why there is no answer; null where the service was not asked. */
  readonly answer: readonly Version[] | FeedSyncError | null;
  /** Null where the content was not compared: without `--deep`, and where nothing can be compared. */
  readonly content: ContentFinding | null;
  /** Null where nothing was asked for. */
  readonly mending: Mending | null;
}

/** The relation of a dataset to the subscriptions, by the stores. */
export type Comparison =
  | { readonly kind: 'followed' }
  | { readonly kind: 'suspended'; readonly suspension: Suspension }
  | { readonly kind: 'left-out' }
  /** `isApprovalAwaited`: so many tables are to be retired that an operator has to approve. */
  | { readonly kind: 'not-desired'; readonly isApprovalAwaited: boolean };

/** The JSON; `cli/outputs.md` documents its fields. */
export type Verification = ReturnType<typeof verificationOf>;

/**
 * The result for a dataset. `equal`: to the mirror's catalog, and to the service's statements about the mirrored version, which is the
 * newest. `behind`: the service has something newer, and nothing else differs. `different`: see the differences. `not-asked`: equal to the
 * catalog, but the service was not asked or gave no answer. `not-followed`: equal to the catalog, and left out by datasets.include and
 * datasets.exclude.
 */
export type VerificationResult = 'equal' | 'behind' | 'different' | 'not-asked' | 'not-followed';

export function verificationOf({
  mirror,
  datasets,
  past,
  renewal,
  files,
  workspaceSuspension,
  problem,
}: Findings) {
  return {
    mirror,
    datasets: datasets.map(verified),
    past: past.map(pastJson),
    renewal: renewal && mendingJson(renewal),
    copy: files.copy && copyJson(files.copy),
    suspension: workspaceSuspension && suspensionJson(workspaceSuspension),
    problem: problem && incidentRaised(problem),
  };
}

/** Returns the refusals from before the comparison. */
export function suspensionsOf({ datasets, workspaceSuspension }: Findings): readonly Suspension[] {
  const ofDatasets = datasets.flatMap(({ comparison }) =>
    comparison.kind === 'suspended' ? comparison.suspension : [],
  );
  return workspaceSuspension === null ? ofDatasets : [workspaceSuspension, ...ofDatasets];
}

/**
 * Returns the exit code: 0 only where everything was compared with the service and is equal, except for datasets that are left out on
 * purpose.
 */
export function exitCodeOfFindings(findings: Findings): ExitCode {
  const { datasets } = verificationOf(findings);
  const answers = [findings.problem, ...findings.datasets.map(({ answer }) => answer)];
  return mostUrgent([
    ...answers.filter((answer) => answer instanceof FeedSyncError).map(exitCodeOf),
    ...suspensionsOf(findings).map(() => EXIT_CODES.operatorMustAct),
    ...findings.datasets.flatMap(({ mending }) =>
      mending?.kind === 'failed' ? exitCodeOf(mending.error) : [],
    ),
    ...findings.datasets.flatMap(({ content }) => (content === null ? [] : exitCodeOfContent(content))),
    ...(datasets.some(({ differences }) => differences.length > 0) ? [EXIT_CODES.dataFault] : []),
    ...(findings.past.some(isWrong) ? [EXIT_CODES.dataFault] : []),
    ...(isDamaged(findings.files) ? [EXIT_CODES.storageFault] : []),
  ]);
}

function isDamaged({ endingProcess, copy }: ExaminedFiles): boolean {
  return endingProcess.size > 0 || (copy !== null && copy.damage.length > 0);
}

function verified(finding: Finding) {
  const { datasetId, comparison, counted, answer } = finding;
  const versions = answer instanceof FeedSyncError ? null : answer;
  const differences = differencesOf(finding, versions);
  return {
    id: datasetId,
    table: counted?.observed.tableName ?? null,
    version: counted?.observed.version ?? null,
    newestVersion: versions === null || versions.length === 0 ? null : newestOf(versions),
    rows: counted?.table?.rowCount ?? null,
    result: resultOf(differences, versions !== null, comparison),
    differences,
    content: finding.content && contentJson(finding.content),
    mending: finding.mending && mendingJson(finding.mending),
    suspension: comparison.kind === 'suspended' ? suspensionJson(comparison.suspension) : null,
    problem: answer instanceof FeedSyncError ? incidentRaised(answer) : null,
  };
}

function mendingJson(mending: Mending) {
  const message = mending.kind === 'failed' ? mending.error.message : mending.text;
  return { result: mending.kind, message };
}

function resultOf(
  differences: readonly Difference[],
  isAnswered: boolean,
  { kind: comparison }: Comparison,
): VerificationResult {
  if (differences.some(({ kind }) => kind !== 'behind' && kind !== 'not-loaded')) return 'different';
  if (differences.length > 0) return 'behind';
  if (comparison === 'left-out') return 'not-followed';
  return isAnswered ? 'equal' : 'not-asked';
}

function newestOf(versions: readonly Version[]): number {
  return Math.max(...versions.map(({ version }) => version));
}

interface Difference {
  readonly kind: DifferenceKind;
  /** For people. */
  readonly message: string;
  /** The command that mends it. */
  readonly remedy: string;
}

type DifferenceKind =
  /** The rows are not those of the service. */
  | 'content'
  /** The table cannot be read. */
  | 'damaged'
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

export const CATCH_UP = 'feed-sync once';

/** Differences of rows: a comparison with the service's content names the rows, and can repair them. */
const OF_ROWS: ReadonlySet<DifferenceKind> = new Set(['row-count', 'key-null', 'key-repeated', 'checksum']);

function differencesOf(
  { comparison, counted, content, mending }: Finding,
  versions: readonly Version[] | null,
): readonly Difference[] {
  if (counted === null) {
    const message = 'A subscription contains the dataset, and it has no table yet.';
    return comparison.kind === 'followed' ? [{ kind: 'not-loaded', message, remedy: CATCH_UP }] : [];
  }
  const differences: Difference[] = [];
  if (comparison.kind === 'not-desired') {
    const message = 'No subscription contains it any more: its table will be retired.';
    const remedy = comparison.isApprovalAwaited ? 'feed-sync resume --retire' : CATCH_UP;
    differences.push({ kind: 'not-desired', message, remedy });
  }
  const { datasetId, pinnedSince } = counted.observed;
  // A pinned table takes no other content.
  const isPinned = pinnedSince !== null;
  const reload = isPinned
    ? `feed-sync resume --dataset ${shellWord(datasetId)}`
    : `feed-sync resync ${shellWord(datasetId)}`;
  if (mending?.kind !== 'repaired') {
    const isMarked = (kind: DifferenceKind): boolean => kind === 'damaged' && mending?.kind === 'marked';
    const ofRows = differencesOfRows(counted, content, reload);
    differences.push(...ofRows.map((one) => (isMarked(one.kind) ? { ...one, remedy: CATCH_UP } : one)));
  }
  if (versions !== null) differences.push(...differencesFromService(counted.observed, versions, reload));
  return differences;
}

/** Compares the table with the catalog, and says what the comparison of its content has found. */
function differencesOfRows(
  counted: CountedDataset,
  content: ContentFinding | null,
  reload: string,
): readonly Difference[] {
  const isContentKnown = content?.kind === 'equal' || content?.kind === 'different';
  // Where the rows were compared, the checksum says nothing more.
  const isKnownBetter = (kind: DifferenceKind): boolean =>
    (kind === 'checksum' && isContentKnown) || (kind === 'damaged' && content?.kind === 'damaged');
  const ofCatalog = differencesFromCatalog(counted).filter(([kind]) => !isKnownBetter(kind));
  const { datasetId, tableName, pinnedSince } = counted.observed;
  const ofContent = content && differenceOfContent(datasetId, tableName, content);
  const compare = `feed-sync verify --deep ${shellWord(datasetId)}`;
  const remedyOf = (kind: DifferenceKind): string =>
    ofContent?.remedy ?? (OF_ROWS.has(kind) && content === null && pinnedSince === null ? compare : reload);
  return [
    ...ofCatalog.map(([kind, message]) => ({ kind, message, remedy: remedyOf(kind) })),
    ...(ofContent === null ? [] : [ofContent]),
  ];
}

/** Compares the counted table with its entry in the mirror's catalog. */
function differencesFromCatalog({
  observed,
  table,
  damage,
}: CountedDataset): readonly [DifferenceKind, string][] {
  const { tableName, rowCount } = observed;
  if (damage !== null) {
    return [['damaged', `The table ${tableName} is damaged and cannot be read: ${damage}`]];
  }
  if (table === null) {
    return [['table-missing', `The mirror has no table ${tableName}, though feed_sync.datasets lists it.`]];
  }
  const found: [DifferenceKind, string][] = [];
  if (table.rowCount !== rowCount) {
    const own = plural(table.rowCount, 'row');
    const message = `The table ${tableName} has ${own}, and feed_sync.datasets says ${formatCount(rowCount)}.`;
    found.push(['row-count', message]);
  }
  if (table.keys !== null) found.push(...keyDifferences(tableName, table.keys));
  for (const column of table.strayColumns) found.push(['column', columnDifference(tableName, column)]);
  // Other rows of another number are no news.
  if (table.hasRecordedChecksum === false && table.rowCount === rowCount) {
    const message = `The rows of the table ${tableName} are not those that were committed: their checksum differs.`;
    found.push(['checksum', message]);
  }
  return found;
}

function keyDifferences(
  tableName: string,
  { nullRows, repeatedRows, example }: CountedKeys,
): readonly [DifferenceKind, string][] {
  const found: [DifferenceKind, string][] = [];
  if (nullRows > 0) {
    found.push(['key-null', `The table ${tableName} has ${plural(nullRows, 'row')} without a whole key.`]);
  }
  if (repeatedRows > 0) {
    const key = [...(example ?? [])].map(([name, value]) => `${name} = ${value ?? 'null'}`).join(', ');
    const rows = plural(repeatedRows, 'row');
    const message = `The table ${tableName} has ${rows} with the key of another row, such as ${key}.`;
    found.push(['key-repeated', message]);
  }
  return found;
}

function columnDifference(tableName: string, { columnName, expected, found }: StrayColumn): string {
  const column = `${JSON.stringify(columnName)} of the table ${tableName}`;
  if (found === null) return `The column ${column} is missing.`;
  return expected === null
    ? `The column ${column} is not listed in feed_sync.columns.`
    : `The column ${column} is of type ${found}, and should be ${expected}.`;
}

/** Compares the catalog's entry with the versions that the service lists from the mirrored one on. */
function differencesFromService(
  observed: ObservedTable,
  versions: readonly Version[],
  reload: string,
): readonly Difference[] {
  // A rollback keeps it where it is: someone decided that.
  if (observed.pinnedSince !== null) return [];
  const { version: mirrored } = observed;
  const record = versions.find(({ version }) => version === mirrored) ?? null;
  const newer = versions.filter(({ version }) => version > mirrored).length;
  const differences: Difference[] = [];
  if (newer > 0) {
    const distance = plural(newer, 'version');
    const message = `Version ${newestOf(versions)} is out, ${distance} after the mirrored ${mirrored}.`;
    differences.push({ kind: 'behind', message, remedy: CATCH_UP });
  }
  if (record === null && newer === 0) {
    const message = `The service lists no version ${mirrored}, nor a newer one.`;
    differences.push({ kind: 'service-version', message, remedy: reload });
  }
  if (record === null) return differences;
  if (record.rowCount !== null && record.rowCount !== observed.rowCount) {
    const own = formatCount(observed.rowCount);
    const message = `The service says that version ${mirrored} has ${plural(record.rowCount, 'row')}; ${own} were mirrored.`;
    differences.push({ kind: 'service-row-count', message, remedy: reload });
  }
  if (record.schemaVersion !== null && record.schemaVersion !== observed.schemaVersion) {
    const own = observed.schemaVersion ?? 'an unknown one';
    const message = `The service says that version ${mirrored} has the schema ${record.schemaVersion}; the table has ${own}.`;
    differences.push({ kind: 'service-schema', message, remedy: CATCH_UP });
  }
  return differences;
}
