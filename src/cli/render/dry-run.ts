/** A dry run for people. Pure. */

import { printable } from '../../lib/text.ts';
import { formatBytes, formatCount } from '../../lib/units.ts';
import { type SuspensionJson, suspensionJson } from '../../reporting/status.ts';
import type { CatchUpResult, DatasetResult } from '../../sync/result.ts';
import type { SimulatedOutcome } from '../../sync/simulate.ts';
import { formatError, formatSuspension, type IncidentRaised, incidentRaised } from './messages.ts';
import { renderTable } from './table.ts';

const RETIREMENTS = {
  archive: 'move its table to the schema archived',
  drop: 'delete its table',
  keep: 'leave its table and follow it no more',
} as const;

/** `width`: columns of the screen. */
export function renderDryRun(
  dryRun: DryRun,
  { result, steps }: Pick<Foretold, 'result' | 'steps'>,
  width: number,
): string {
  const paragraphs = [
    'This is what feed-sync once would do now. Nothing was changed.',
    ...workTable(result.datasets, steps, width),
    ...problemTexts(result),
    [headline(dryRun), ...diskLines(dryRun)].join('\n'),
  ];
  return paragraphs.join('\n\n');
}

/** Of those that something is to be done about, or that something is in the way of. */
function workTable(
  datasets: readonly DatasetResult[],
  steps: ReadonlyMap<string, readonly SimulatedOutcome[]>,
  width: number,
): readonly string[] {
  const rows = datasets.flatMap((dataset) => {
    const words = [...(steps.get(dataset.datasetId) ?? []).map(stepWords), ...endingWords(dataset)];
    return words.length === 0 ? [] : [[dataset.datasetId, words.join('; then ')]];
  });
  const columns = [{ title: 'dataset' }, { title: 'what would be done', wraps: true }];
  return rows.length === 0 ? [] : [renderTable(columns, rows, width)];
}

function stepWords(step: SimulatedOutcome): string {
  switch (step.kind) {
    case 'load': {
      const size = [
        ...(step.rows === null ? [] : [plural(step.rows, 'row')]),
        step.bytes === null ? 'of unknown size' : formatBytes(step.bytes),
      ];
      return `load version ${step.toVersion}${inPlaceOf(step)} (${size.join(', ')}), because ${step.why}`;
    }
    case 'apply': {
      const rows = step.rows === null ? 'rows not counted' : `${plural(step.rows, 'changed row')}`;
      const columns = step.addsColumns ? ', adding columns' : '';
      return `apply ${plural(step.versions, 'version')}, from ${step.fromVersion} to ${step.toVersion} (${rows})${columns}`;
    }
    case 'retire':
      return `${RETIREMENTS[step.how]} (${step.why})`;
  }
}

function inPlaceOf({ fromVersion, toVersion }: SimulatedOutcome & { kind: 'load' }): string {
  if (fromVersion === null) return '';
  return fromVersion === toVersion ? ' again' : ` in place of version ${fromVersion}`;
}

/** What is in the way of it is told below the table. */
function endingWords(dataset: DatasetResult): readonly string[] {
  switch (dataset.kind) {
    case 'waiting':
      return [`wait: ${dataset.why}`];
    case 'suspended':
      return ['nothing: it is suspended'];
    case 'failed':
      return ['fail'];
    default:
      return [];
  }
}

/** Each hold once, however many datasets it holds. */
function problemTexts({ datasets, suspensions, incidents }: CatchUpResult): readonly string[] {
  const ofDatasets = datasets.flatMap((dataset) => {
    const isSuspendedItself =
      dataset.kind === 'suspended' && dataset.suspension.refusal.scope.kind === 'dataset';
    return isSuspendedItself ? [dataset.suspension] : [];
  });
  const failures = datasets.flatMap((dataset) =>
    dataset.kind === 'failed'
      ? [`Dataset ${printable(dataset.datasetId)}: ${formatError(dataset.error)}`]
      : [],
  );
  const reported = incidents.map(({ subscriptionId, error }) => {
    const of = subscriptionId === null ? '' : `Subscription ${printable(subscriptionId)}: `;
    return `${of}${formatError(error)}`;
  });
  return [...[...suspensions, ...ofDatasets].map(formatSuspension), ...failures, ...reported];
}

function headline({ datasets, totals, suspensions, incidents }: DryRun): string {
  if (datasets.length === 0 && suspensions.length + incidents.length > 0)
    return 'No dataset would be caught up.';
  const counted = COUNTED.flatMap(({ words, counts }) => {
    const { length } = datasets.filter(counts);
    return length === 0 ? [] : [`${formatCount(length)} ${words}`];
  });
  const counts = `${[plural(datasets.length, 'dataset'), counted.join(', ')].filter((text) => text !== '').join(': ')}.`;
  if (!datasets.some(hasWork)) return counts;
  const unknown =
    totals.snapshotsOfUnknownSize === 0
      ? ''
      : ` and ${plural(totals.snapshotsOfUnknownSize, 'snapshot')} of unknown size`;
  const downloads = `${formatBytes(totals.downloadBytes)} of snapshots${unknown}`;
  return `${counts} ${downloads}, ${plural(totals.rows, 'row')}, ${plural(totals.requests, 'request')}.`;
}

const hasWork = ({ steps }: DryRunDataset): boolean => steps.length > 0;

/** Every dataset is counted once, by the first of these that it is. */
const COUNTED: readonly { readonly words: string; readonly counts: (dataset: DryRunDataset) => boolean }[] = [
  { words: 'with work to do', counts: hasWork },
  { words: 'up to date', counts: (dataset) => !hasWork(dataset) && dataset.ending === 'current' },
  { words: 'waiting', counts: (dataset) => !hasWork(dataset) && dataset.ending === 'waiting' },
  { words: 'suspended', counts: (dataset) => !hasWork(dataset) && dataset.ending === 'suspended' },
  { words: 'failing', counts: (dataset) => !hasWork(dataset) && dataset.ending === 'failed' },
];

function diskLines({ totals, disk }: DryRun): readonly string[] {
  if (totals.downloadBytes === 0) return [];
  const [needed, free, reserve] = [disk.neededBytes, disk.freeBytes, disk.reserveBytes].map(formatBytes);
  const kept = `${reserve} of them to be kept so (disk.reserve)`;
  return disk.isEnough
    ? [`Disk: about ${needed} are needed; ${free} are free, ${kept}.`]
    : [
        `Disk: about ${needed} are needed, and only ${free} are free, ${kept}.`,
        '→ Free some space, or set dataDir to a larger disk.',
      ];
}

function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

export interface DryRun {
  readonly datasets: readonly DryRunDataset[];
  readonly totals: DryRunTotals;
  readonly disk: DiskForecast;
  /** Of the workspace, of subscriptions and of retirements. */
  readonly suspensions: readonly SuspensionJson[];
  /** Of subscriptions and of the run: what they would have asked for is not in here. */
  readonly incidents: readonly (IncidentRaised & { readonly subscription: string | null })[];
}

interface DryRunDataset {
  readonly id: string;
  /** In the order in which they would be carried out. */
  readonly steps: readonly SimulatedOutcome[];
  /** What would be told of it after these steps. */
  readonly ending: DatasetResult['kind'];
  /** Why it would wait or fail; null for the other endings. */
  readonly why: string | null;
  readonly suspension: SuspensionJson | null;
}

interface DryRunTotals {
  /** Of the snapshots whose sizes the service gives; what an interrupted catch-up left here already is counted too. */
  readonly downloadBytes: number;
  /** Snapshots of which the service gives no size. */
  readonly snapshotsOfUnknownSize: number;
  /** Rows of snapshots, and rows that changes list; of those that the service counts. */
  readonly rows: number;
  /** For files and pages of changes, at least. */
  readonly requests: number;
}

/** Of the disk of the data directory. */
interface DiskForecast {
  /** An estimate: the downloads, all at once, and tables that are as large as their files. */
  readonly neededBytes: number;
  readonly freeBytes: number;
  /** What is kept free (disk.reserve). */
  readonly reserveBytes: number;
  readonly isEnough: boolean;
}

export interface Foretold {
  readonly result: CatchUpResult;
  /** By dataset id. */
  readonly steps: ReadonlyMap<string, readonly SimulatedOutcome[]>;
  readonly disk: Pick<DiskForecast, 'freeBytes' | 'reserveBytes'>;
}

/** The files of a snapshot, and the table made from them. */
const BYTES_KEPT_PER_BYTE = 2;

export function dryRunOf({ result, steps, disk }: Foretold): DryRun {
  const totals = totalsOf([...steps.values()].flat());
  const neededBytes = totals.downloadBytes * BYTES_KEPT_PER_BYTE;
  return {
    datasets: result.datasets.map((dataset) => ({
      id: dataset.datasetId,
      steps: steps.get(dataset.datasetId) ?? [],
      ending: dataset.kind,
      why: whyOf(dataset),
      suspension: dataset.kind === 'suspended' ? suspensionJson(dataset.suspension) : null,
    })),
    totals,
    disk: { neededBytes, ...disk, isEnough: disk.freeBytes - neededBytes >= disk.reserveBytes },
    suspensions: result.suspensions.map(suspensionJson),
    incidents: result.incidents.map(({ subscriptionId, error }) => ({
      subscription: subscriptionId,
      ...incidentRaised(error),
    })),
  };
}

function totalsOf(steps: readonly SimulatedOutcome[]): DryRunTotals {
  const loads = steps.filter((step) => step.kind === 'load');
  const working = steps.filter((step) => step.kind !== 'retire');
  return {
    downloadBytes: sum(loads.map(({ bytes }) => bytes ?? 0)),
    snapshotsOfUnknownSize: loads.filter(({ bytes }) => bytes === null).length,
    rows: sum(working.map(({ rows }) => rows ?? 0)),
    requests: sum(working.map(({ requests }) => requests)),
  };
}

function whyOf(dataset: DatasetResult): string | null {
  if (dataset.kind === 'waiting') return dataset.why;
  return dataset.kind === 'failed' ? dataset.error.message : null;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
