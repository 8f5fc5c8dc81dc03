/** Renders `verify` for people. Pure. */

import type { Suspension } from '../../checkpoint/checkpoint.ts';
import type { CountedDataset } from '../../destination/duckdb/count-tables.ts';
import { printable } from '../../lib/text.ts';
import { formatCount } from '../../lib/units.ts';
import { FeedSyncError } from '../../model/errors.ts';
import type { Version } from '../../model/records.ts';
import { suspensionJson } from '../../reporting/status.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf, mostUrgent } from '../exit-codes.ts';
import { formatSuspension, type IncidentRaised, incidentRaised } from '../render/messages.ts';
import { renderTable } from '../render/table.ts';
import {
  type Difference,
  differencesFromCatalog,
  differencesFromService,
  notLoaded,
  notWanted,
} from './differences.ts';

const WORDS: Readonly<Record<VerificationResult, string>> = {
  equal: 'equal',
  behind: 'behind',
  different: 'different',
  'not-asked': 'not compared with the service',
  'not-followed': 'left out by the settings',
};

/** `suspensions`: those from before the comparison. `width`: columns of the screen. */
export function renderVerification(
  { mirror, datasets, problem }: Verification,
  suspensions: readonly Suspension[],
  width: number,
): string {
  return [
    ...(datasets.length === 0 ? [`The mirror ${mirror} holds no dataset.`] : [tableOf(datasets, width)]),
    ...section(
      'Differences',
      datasets.filter(({ differences }) => differences.length > 0).map(differencesText),
    ),
    ...suspensions.flatMap((one) => ['', formatSuspension(one)]),
    ...section('Not compared with the service', problem === null ? [] : [problemText(problem)]),
    ...section(
      'No answer',
      datasets.flatMap(({ id, problem: met }) =>
        met === null ? [] : `${printable(id)}: ${problemText(met)}`,
      ),
    ),
    '',
    headline(datasets),
  ].join('\n');
}

function tableOf(datasets: readonly DatasetVerification[], width: number): string {
  const columns = [
    { title: 'dataset' },
    { title: 'version', align: 'right' as const },
    { title: 'newest', align: 'right' as const },
    { title: 'rows', align: 'right' as const },
    { title: 'result', wraps: true },
  ];
  const rows = datasets.map(({ id, version, newestVersion, rows: count, result }) => [
    id,
    version === null ? '' : String(version),
    newestVersion === null ? '' : String(newestVersion),
    count === null ? '' : formatCount(count),
    WORDS[result],
  ]);
  return renderTable(columns, rows, width);
}

/** Several differences that the same command mends name it once. */
function differencesText({ id, differences }: DatasetVerification): string {
  const remedies = [...new Set(differences.map(({ remedy }) => remedy))];
  return [
    ...differences.map(({ message }) => `${printable(id)}: ${printable(message)}`),
    ...remedies.map((remedy) => `→ ${printable(remedy)}`),
  ].join('\n  ');
}

function problemText({ message, hint, links }: IncidentRaised): string {
  return [
    printable(message),
    ...Object.entries(links).map(([name, url]) => `  ${printable(name)}: ${printable(url)}`),
    ...(hint === null ? [] : [`→ ${printable(hint)}`]),
  ].join('\n');
}

function headline(datasets: readonly DatasetVerification[]): string {
  const words = Object.entries(WORDS).flatMap(([result, reported]) => {
    const { length } = datasets.filter((dataset) => dataset.result === result);
    return length === 0 ? [] : [`${formatCount(length)} ${reported}`];
  });
  const total = `${formatCount(datasets.length)} ${datasets.length === 1 ? 'dataset' : 'datasets'}`;
  return words.length === 0 ? `${total}.` : `${total}: ${words.join(', ')}.`;
}

function section(title: string, texts: readonly string[]): readonly string[] {
  if (texts.length === 0) return [];
  return ['', `${title}:`, ...texts.map((text) => text.replaceAll(/^/gm, '  '))];
}

/** The JSON; `cli/outputs.md` documents its fields. */
export type Verification = ReturnType<typeof verificationOf>;
type DatasetVerification = Verification['datasets'][number];

/**
 * `equal`: to the mirror's catalog, and to the service's statements about the mirrored version, which is the newest.
 * `behind`: the
 * service has something newer, and nothing else differs. `different`: see the differences. `not-asked`: equal to the
 * catalog, but the
 * service was not asked or gave no answer. `not-followed`: equal to the catalog, and left out by datasets.include and
 * datasets.exclude.
 */
type VerificationResult = 'equal' | 'behind' | 'different' | 'not-asked' | 'not-followed';

/** The relation of a dataset to the subscriptions, by the stores. */
export type Comparison =
  | { readonly kind: 'followed' }
  | { readonly kind: 'suspended'; readonly suspension: Suspension }
  | { readonly kind: 'left-out' }
  | { readonly kind: 'not-desired'; readonly isApprovalAwaited: boolean };

export interface Finding {
  readonly datasetId: string;
  readonly comparison: Comparison;
  /** Null where the mirror has no such dataset. */
  readonly counted: CountedDataset | null;
  /** The versions from the mirrored one on, or why there is no answer; null where the service was not asked. */
  readonly answer: readonly Version[] | FeedSyncError | null;
}

export interface Findings {
  readonly mirror: string;
  readonly datasets: readonly Finding[];
  readonly workspaceSuspension: Suspension | null;
  readonly problem: FeedSyncError | null;
}

export function verificationOf({ mirror, datasets, workspaceSuspension, problem }: Findings) {
  return {
    mirror,
    datasets: datasets.map(verified),
    suspension: workspaceSuspension === null ? null : suspensionJson(workspaceSuspension),
    problem: problem === null ? null : incidentRaised(problem),
  };
}

/** Returns the refusals from before the comparison. */
export function suspensionsOf({ datasets, workspaceSuspension }: Findings): readonly Suspension[] {
  const ofDatasets = datasets.flatMap(({ comparison }) =>
    comparison.kind === 'suspended' ? comparison.suspension : [],
  );
  return workspaceSuspension === null ? ofDatasets : [workspaceSuspension, ...ofDatasets];
}

/** 0 only where everything was compared with the service and is equal, except for datasets that are left out on purpose. */
export function exitCodeOfFindings(findings: Findings): ExitCode {
  const { datasets } = verificationOf(findings);
  const answers = [findings.problem, ...findings.datasets.map(({ answer }) => answer)];
  return mostUrgent([
    ...answers.filter((answer) => answer instanceof FeedSyncError).map(exitCodeOf),
    ...suspensionsOf(findings).map(() => EXIT_CODES.operatorMustAct),
    ...(datasets.some(({ differences }) => differences.length > 0) ? [EXIT_CODES.dataFault] : []),
  ]);
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
    suspension: comparison.kind === 'suspended' ? suspensionJson(comparison.suspension) : null,
    problem: answer instanceof FeedSyncError ? incidentRaised(answer) : null,
  };
}

function differencesOf(
  { comparison, counted }: Finding,
  versions: readonly Version[] | null,
): readonly Difference[] {
  if (counted === null) return comparison.kind === 'followed' ? [notLoaded()] : [];
  return [
    ...(comparison.kind === 'not-desired' ? [notWanted(comparison.isApprovalAwaited)] : []),
    ...differencesFromCatalog(counted),
    ...(versions === null ? [] : differencesFromService(counted.observed, versions)),
  ];
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
