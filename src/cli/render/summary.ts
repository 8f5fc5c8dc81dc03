/** Renders the summary at the end of a catch-up, and finds its exit code. Pure. */

import { printable, shellWord } from '../../lib/text.ts';
import { formatBytes, formatCount, formatDuration, plural } from '../../lib/units.ts';
import type { CommitResult } from '../../model/commits.ts';
import { errorCodeOf } from '../../model/errors.ts';
import { remedyOfLostPast } from '../../model/lost-past.ts';
import type { CatchUpResult, DatasetResult } from '../../sync/result.ts';
import { awaitsOperator, waysToEnd } from '../../sync/retirements.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf, mostUrgent } from '../exit-codes.ts';
import {
  type Counted,
  type DatasetProblem,
  formatCounts,
  formatError,
  formatIncident,
  formatRetry,
  formatSuspension,
  formatTime,
  formatTimeRoundedUp,
  groupByCause,
  isSuspendedItself,
  suspensionProblem,
} from './messages.ts';

/** The most datasets named under a heading; the rest is counted and left to `feed-sync status`. */
const MAX_NAMED = 20;

export function summarize(result: CatchUpResult): string {
  const { datasets } = result;
  const waiting = ofKind(datasets, 'waiting');
  return [
    headline(result),
    ...[...result.suspensions.map(formatSuspension), ...result.incidents.map(formatIncident)].flatMap(
      (text) => ['', text],
    ),
    ...section('Suspended', datasets.filter(isSuspendedItself), ({ datasetId, suspension }) =>
      suspensionProblem(datasetId, suspension),
    ),
    ...section('Failed', ofKind(datasets, 'failed'), failureProblem),
    ...lostPasts(datasets),
    ...section('Pinned', ofKind(datasets, 'pinned'), ({ datasetId, version, pinnedSince }) => {
      const resume = `→ feed-sync resume --dataset ${shellWord(datasetId)}`;
      const text = `at version ${version} since ${formatTime(pinnedSince)}\n${resume}`;
      return { datasetId, cause: text, text };
    }),
    ...waitingSection('Waiting until you have acted', waiting.filter(awaitsOperator)),
    ...waitingSection(
      'Waiting for the next catch-up',
      waiting.filter((each) => !awaitsOperator(each)),
    ),
    ...formatAgain(result),
  ].join('\n');
}

export function exitCodeOfResult({ datasets, incidents, suspensions }: CatchUpResult): ExitCode {
  return mostUrgent([
    ...incidents.map(({ error }) => exitCodeOf(error)),
    ...suspensions.map(() => EXIT_CODES.operatorMustAct),
    ...datasets.map(exitCodeOfDataset),
  ]);
}

function exitCodeOfDataset(result: DatasetResult): ExitCode {
  switch (result.kind) {
    case 'updated':
    case 'current':
    case 'retired':
    case 'planned':
    case 'pinned':
      return EXIT_CODES.caughtUp;
    case 'waiting':
      return awaitsOperator(result) ? EXIT_CODES.operatorMustAct : EXIT_CODES.tryAgainLater;
    case 'suspended':
      return EXIT_CODES.operatorMustAct;
    case 'failed':
      return exitCodeOf(result.error);
  }
}

function headline({ datasets, subscriptions, incidents, suspensions, durationMs }: CatchUpResult): string {
  // The catch-up ended before the datasets: a count of 0 would sound as if there were none.
  if (datasets.length === 0 && incidents.length + suspensions.length > 0)
    return `Nothing was caught up. ${formatDuration(durationMs)}.`;
  const scope = `${plural(datasets.length, 'dataset')} in ${plural(subscriptions, 'subscription')}`;
  const commits = datasets.flatMap((result) => result.commits);
  const done = [...formatLoads(commits), ...formatChanges(commits), formatDuration(durationMs)];
  return `${formatCounts(scope, datasets, COUNTED)}. ${done.join('. ')}.`;
}

/** Empty unless a rule waits for time to pass. */
function formatAgain({ again }: CatchUpResult): readonly string[] {
  if (again === null) return [];
  const { at, inMs } = again;
  const stay = `${Math.ceil(inMs / 60_000) + 1}m`;
  return [
    '',
    `Running it again helps from ${formatTimeRoundedUp(at)} on, in ${formatDuration(inMs)}.`,
    `→ feed-sync once --wait ${stay} waits for it.`,
  ];
}

const COUNTED: readonly Counted<DatasetResult>[] = [
  {
    words: 'loaded',
    counts: (result) => result.kind === 'updated' && hasLoaded(result),
    isAlwaysReported: true,
  },
  { words: 'updated by changes', counts: (result) => result.kind === 'updated' && !hasLoaded(result) },
  { words: 'retired', counts: ({ kind }) => kind === 'retired' },
  { words: 'already up to date', counts: ({ kind }) => kind === 'current', isAlwaysReported: true },
  { words: 'waiting', counts: ({ kind }) => kind === 'waiting' },
  { words: 'pinned', counts: ({ kind }) => kind === 'pinned' },
  { words: 'suspended', counts: ({ kind }) => kind === 'suspended' },
  { words: 'failed', counts: ({ kind }) => kind === 'failed' },
];

function hasLoaded({ commits }: DatasetResult): boolean {
  return commits.some(({ kind }) => kind === 'snapshot');
}

/** `2,000,000 rows from 18.2 MB` */
function formatLoads(commits: readonly CommitResult[]): readonly string[] {
  const loads = commits.filter(({ kind }) => kind === 'snapshot');
  if (loads.length === 0) return [];
  const rows = sumOf(loads, ({ rowCount }) => rowCount);
  return [`${plural(rows, 'row')} from ${formatBytes(sumOf(loads, ({ bytes }) => bytes))}`];
}

/** `3 versions: 12 rows added, 4 changed, 1 removed, from 2.1 KB` */
function formatChanges(commits: readonly CommitResult[]): readonly string[] {
  const changes = commits.filter(({ kind }) => kind === 'changes');
  if (changes.length === 0) return [];
  const sum = (what: (commit: CommitResult) => number | undefined): number => sumOf(changes, what);
  const versions = plural(
    sum((commit) => commit.versions),
    'version',
  );
  const added = plural(
    sum(({ net }) => net?.added),
    'row',
  );
  const changed = formatCount(sum(({ net }) => net?.changed ?? 0));
  const removed = formatCount(sum(({ net }) => net?.removed));
  const bytes = formatBytes(sum((commit) => commit.bytes));
  return [`${versions}: ${added} added, ${changed} changed, ${removed} removed, from ${bytes}`];
}

/** A missing number counts as 0. */
function sumOf(commits: readonly CommitResult[], what: (commit: CommitResult) => number | undefined): number {
  return commits.reduce((sum, commit) => sum + (what(commit) ?? 0), 0);
}

/** The past that a commit has lost, and the remedy. */
function lostPasts(datasets: readonly DatasetResult[]): readonly string[] {
  const lost = datasets.flatMap(({ datasetId, commits }): DatasetProblem[] =>
    commits.flatMap(({ lostPast, observed: { commitNumber } }) => {
      if (lostPast === undefined) return [];
      const text = `${lostPast}\n→ ${remedyOfLostPast(lostPast)}`;
      return [{ datasetId, cause: lostPast, text: `before commit ${commitNumber}: ${text}` }];
    }),
  );
  return named('Earlier states that are not known any more', lost);
}

function failureProblem({
  datasetId,
  error,
  failure,
}: Extract<DatasetResult, { kind: 'failed' }>): DatasetProblem {
  const retry = failure === null ? [] : [formatRetry(failure, formatTimeRoundedUp(failure.retryAt))];
  const cause = `${errorCodeOf(error)} ${error.message}`;
  return { datasetId, cause, text: [formatError(error), ...retry].join('\n') };
}

/** Adds how far a dataset came that did not end well. */
function withReached({ cause, text, ...problem }: DatasetProblem, commits: DatasetResult['commits']) {
  const last = commits.at(-1);
  if (last === undefined) return { ...problem, cause, text };
  const reached = `brought to version ${last.toVersion} before that`;
  return { ...problem, cause: `${cause} ${reached}`, text: `${text}\n${reached}` };
}

function section<T extends DatasetResult>(
  title: string,
  results: readonly T[],
  report: (result: T) => DatasetProblem,
): readonly string[] {
  return named(
    title,
    results.map((result) => withReached(report(result), result.commits)),
  );
}

function named(title: string, problems: readonly DatasetProblem[]): readonly string[] {
  if (problems.length === 0) return [];
  const causes = groupByCause(problems);
  // All lines after the first are indented further, so that the next dataset is easy to find.
  const lines = causes
    .slice(0, MAX_NAMED)
    .map(({ datasetId, text }) => `  ${printable(datasetId)}: ${text.replaceAll('\n', '\n    ')}`);
  const rest = causes.length - lines.length;
  return [
    '',
    `${title}:`,
    ...lines,
    ...(rest > 0 ? [`  and ${formatCount(rest)} more: feed-sync status`] : []),
  ];
}

/** A remedy is named once for all waiting datasets. */
function waitingSection(
  title: string,
  results: readonly Extract<DatasetResult, { kind: 'waiting' }>[],
): readonly string[] {
  const ways = new Set(results.flatMap(({ awaited }) => waysToEnd(awaited)));
  const problem = ({ datasetId, why }: (typeof results)[number]) => ({ datasetId, cause: why, text: why });
  return [...section(title, results, problem), ...[...ways].map((way) => `→ ${way}`)];
}

function ofKind<K extends DatasetResult['kind']>(
  results: readonly DatasetResult[],
  kind: K,
): readonly Extract<DatasetResult, { kind: K }>[] {
  return results.filter((result): result is Extract<DatasetResult, { kind: K }> => result.kind === kind);
}
