/** The summary at the end of a catch-up, and the exit code that goes with it. Pure. */

import { formatBytes, formatCount, formatDuration } from '../lib/units.ts';
import type { CatchUpResult, DatasetResult } from '../sync/result.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf, mostUrgent } from './exit-codes.ts';
import { tellError, tellHold } from './person.ts';
import { printable } from './terminal.ts';

/** Datasets named one by one under a heading; the rest are counted and left to `feed-sync status`. */
const MAX_NAMED = 20;

export function summarize(result: CatchUpResult): string {
  const { datasets } = result;
  return [
    headline(result),
    ...result.holds.map(tellHold),
    ...result.troubles.map(
      ({ subscriptionId, error }) => `${ofSubscription(subscriptionId)}${tellError(error)}`,
    ),
    ...section('Held', ofKind(datasets, 'held'), ({ hold }) => tellHold(hold)),
    ...section('Failed', ofKind(datasets, 'failed'), ({ error, failure }) =>
      [
        tellError(error),
        ...(failure === null ? [] : [`tried again after ${failure.retryAt.toISOString()}`]),
      ].join('\n'),
    ),
    ...section('Waiting', ofKind(datasets, 'waiting'), ({ why }) => why),
  ].join('\n');
}

export function exitCodeOfResult({ datasets, troubles, holds }: CatchUpResult): ExitCode {
  return mostUrgent([
    ...troubles.map(({ error }) => exitCodeOf(error)),
    ...holds.map(() => EXIT_CODES.personMustAct),
    ...datasets.map(exitCodeOfDataset),
  ]);
}

function exitCodeOfDataset(result: DatasetResult): ExitCode {
  switch (result.kind) {
    case 'loaded':
    case 'current':
      return EXIT_CODES.caughtUp;
    case 'waiting':
      return EXIT_CODES.tryAgainLater;
    case 'held':
      return EXIT_CODES.personMustAct;
    case 'failed':
      return exitCodeOf(result.error);
  }
}

function headline({ datasets, subscriptions, troubles, holds, durationMs }: CatchUpResult): string {
  // It did not get as far as the datasets: to count none would sound as if there were none.
  if (datasets.length === 0 && troubles.length + holds.length > 0)
    return `Nothing was caught up. ${formatDuration(durationMs)}.`;
  const loaded = ofKind(datasets, 'loaded');
  const rows = loaded.reduce((sum, { rowCount }) => sum + rowCount, 0);
  const bytes = loaded.reduce((sum, result) => sum + result.bytes, 0);
  const counts = (['loaded', 'current', 'waiting', 'held', 'failed'] as const)
    .map((kind) => ({ kind, count: ofKind(datasets, kind).length }))
    .filter(({ kind, count }) => count > 0 || kind === 'loaded' || kind === 'current')
    .map(({ kind, count }) => `${formatCount(count)} ${WORDS[kind]}`);
  const work = loaded.length === 0 ? '' : ` ${plural(rows, 'row')} from ${formatBytes(bytes)}.`;
  const scope = `${plural(datasets.length, 'dataset')} in ${plural(subscriptions, 'subscription')}`;
  return `${scope}: ${counts.join(', ')}.${work} ${formatDuration(durationMs)}.`;
}

const WORDS = {
  loaded: 'loaded',
  current: 'already up to date',
  waiting: 'waiting',
  held: 'held',
  failed: 'failed',
} as const;

function section<T extends DatasetResult>(
  title: string,
  results: readonly T[],
  tell: (result: T) => string,
): readonly string[] {
  if (results.length === 0) return [];
  const named = results
    .slice(0, MAX_NAMED)
    .map((result) => indent(`${printable(result.datasetId)}: ${hang(tell(result))}`));
  const rest = results.length - named.length;
  return [
    '',
    `${title}:`,
    ...named,
    ...(rest > 0 ? [`  and ${formatCount(rest)} more: feed-sync status`] : []),
  ];
}

function ofKind<K extends DatasetResult['kind']>(
  results: readonly DatasetResult[],
  kind: K,
): readonly Extract<DatasetResult, { kind: K }>[] {
  return results.filter((result): result is Extract<DatasetResult, { kind: K }> => result.kind === kind);
}

function ofSubscription(subscriptionId: string | null): string {
  return subscriptionId === null ? '' : `Subscription ${printable(subscriptionId)}: `;
}

function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** What follows the first line stands further in, so that the eye finds the next dataset. */
function hang(text: string): string {
  return text.replaceAll('\n', '\n  ');
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, '  ');
}
