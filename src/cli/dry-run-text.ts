/** A dry run for people. Pure. */

import { formatBytes, formatCount } from '../lib/units.ts';
import type { ForeseenStep } from '../sync/foresee.ts';
import type { CatchUpResult, DatasetResult } from '../sync/result.ts';
import type { DryRun, Foretold } from './dry-run-view.ts';
import { tellError, tellHold } from './person.ts';
import { printable } from './terminal.ts';

const RETIREMENTS = {
  archive: 'move its table to the schema archived',
  drop: 'delete its table',
  keep: 'leave its table and follow it no more',
} as const;

export function renderDryRun(dryRun: DryRun, { result, steps }: Pick<Foretold, 'result' | 'steps'>): string {
  return [
    'This is what feed-sync once would do now. Nothing was changed.',
    ...datasetLines(result.datasets, steps),
    ...troubleLines(result),
    '',
    headline(dryRun),
    ...(dryRun.totals.downloadBytes === 0 ? [] : [diskLine(dryRun)]),
  ].join('\n');
}

/** Of those that something is to be done about, or that something is in the way of. */
function datasetLines(
  datasets: readonly DatasetResult[],
  steps: ReadonlyMap<string, readonly ForeseenStep[]>,
): readonly string[] {
  const texts = datasets.flatMap((dataset) => {
    const words = [...(steps.get(dataset.datasetId) ?? []).map(stepWords), ...endingWords(dataset)];
    return words.length === 0 ? [] : `${printable(dataset.datasetId)}: ${words.join('\n  then ')}`;
  });
  return texts.length === 0 ? [] : ['', ...texts];
}

function stepWords(step: ForeseenStep): string {
  switch (step.kind) {
    case 'load': {
      const size = [
        ...(step.rows === null ? [] : [plural(step.rows, 'row')]),
        step.bytes === null ? 'of unknown size' : formatBytes(step.bytes),
      ];
      const from = step.fromVersion === null ? '' : ` in place of version ${step.fromVersion}`;
      return `load version ${step.toVersion}${from} (${size.join(', ')}), because ${printable(step.why)}`;
    }
    case 'apply': {
      const rows = step.rows === null ? 'rows not counted' : `${plural(step.rows, 'changed row')}`;
      const columns = step.addsColumns ? ', adding columns' : '';
      return `apply ${plural(step.versions, 'version')}, from ${step.fromVersion} to ${step.toVersion} (${rows})${columns}`;
    }
    case 'retire':
      return `${RETIREMENTS[step.how]} (${printable(step.why)})`;
  }
}

function endingWords(dataset: DatasetResult): readonly string[] {
  switch (dataset.kind) {
    case 'waiting':
      return [`wait: ${printable(dataset.why)}`];
    case 'held':
      return [`nothing: it is held.\n${indented(tellHold(dataset.hold))}`];
    case 'failed':
      return [`fail.\n${indented(tellError(dataset.error))}`];
    default:
      return [];
  }
}

function troubleLines({ holds, troubles }: CatchUpResult): readonly string[] {
  const told = troubles.map(({ subscriptionId, error }) => {
    const of = subscriptionId === null ? '' : `Subscription ${printable(subscriptionId)}: `;
    return `${of}${tellError(error)}`;
  });
  return [...holds.map(tellHold), ...told].flatMap((text) => ['', text]);
}

function headline({ datasets, totals }: DryRun): string {
  const doing = datasets.filter(({ steps }) => steps.length > 0).length;
  const idle = datasets.filter(({ ending, steps }) => ending === 'current' && steps.length === 0).length;
  const counts = `${plural(datasets.length, 'dataset')}: ${formatCount(doing)} with work to do, ${formatCount(idle)} up to date.`;
  if (doing === 0) return counts;
  const unknown =
    totals.snapshotsOfUnknownSize === 0
      ? ''
      : ` and ${plural(totals.snapshotsOfUnknownSize, 'snapshot')} of unknown size`;
  const downloads = `${formatBytes(totals.downloadBytes)} of snapshots${unknown}`;
  return `${counts} ${downloads}, ${plural(totals.rows, 'row')}, ${plural(totals.requests, 'request')}.`;
}

function diskLine({ disk: { neededBytes, freeBytes, reserveBytes, isEnough } }: DryRun): string {
  const needed = `Disk: about ${formatBytes(neededBytes)} beside the ${formatBytes(reserveBytes)} that are kept free (disk.reserve)`;
  const free = `${formatBytes(freeBytes)} are free.`;
  return isEnough
    ? `${needed}; ${free}`
    : `${needed}, and only ${free}\n→ Free some space, or set dataDir to a larger disk.`;
}

function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

function indented(text: string): string {
  return text.replaceAll(/^/gm, '    ');
}
