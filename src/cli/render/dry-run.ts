/** The report of a dry run, for programs and for people. Pure. */

import { printable } from '../../lib/text.ts';
import { formatBytes, plural } from '../../lib/units.ts';
import { suspensionJson } from '../../reporting/status.ts';
import type { CatchUpResult, DatasetResult, PlannedStep } from '../../sync/result.ts';
import {
  type Counted,
  formatCounts,
  formatError,
  formatIncident,
  formatSuspension,
  incidentRaised,
  isSuspendedItself,
} from './messages.ts';
import { renderTable } from './table.ts';

/** The JSON; `cli/outputs.md` documents its fields. */
export type DryRun = ReturnType<typeof dryRunOf>;
type DryRunDataset = DryRun['datasets'][number];

/** An estimate: all downloads at once, and tables that are as large as their files. */
const BYTES_KEPT_PER_BYTE = 2;

/** Reports the next steps. Incidents are those of subscriptions and of the run; the report lacks the steps that they prevented. */
export function dryRunOf(
  { datasets, suspensions, incidents }: CatchUpResult,
  disk: { readonly freeBytes: number; readonly reserveBytes: number },
) {
  const totals = totalsOf(datasets.flatMap((dataset) => stepOf(dataset) ?? []));
  const neededBytes = totals.downloadBytes * BYTES_KEPT_PER_BYTE;
  return {
    datasets: datasets.map((dataset) => ({
      id: dataset.datasetId,
      result: dataset.kind,
      step: stepOf(dataset),
      why: whyOf(dataset),
      suspension: dataset.kind === 'suspended' ? suspensionJson(dataset.suspension) : null,
    })),
    totals,
    disk: { neededBytes, ...disk, isEnough: disk.freeBytes - neededBytes >= disk.reserveBytes },
    suspensions: suspensions.map(suspensionJson),
    incidents: incidents.map(({ subscriptionId, error }) => ({
      subscription: subscriptionId,
      ...incidentRaised(error),
    })),
  };
}

function stepOf(dataset: DatasetResult): PlannedStep | null {
  return dataset.kind === 'planned' ? dataset.step : null;
}

function whyOf(dataset: DatasetResult): string | null {
  if (dataset.kind === 'waiting') return dataset.why;
  return dataset.kind === 'failed' ? dataset.error.message : null;
}

function totalsOf(steps: readonly PlannedStep[]) {
  const loads = steps.filter((step) => step.kind === 'load');
  return {
    downloadBytes: sum(loads.map(({ bytes }) => bytes ?? 0)),
    snapshotsOfUnknownSize: loads.filter(({ bytes }) => bytes === null).length,
    rows: sum(steps.map((step) => (step.kind === 'retire' ? 0 : (step.rows ?? 0)))),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Renders a dry run. `width`: columns of the screen. */
export function renderDryRun(dryRun: DryRun, result: CatchUpResult, width: number): string {
  const paragraphs = [
    'The next step of feed-sync once for each dataset. Nothing was changed.',
    ...stepTable(dryRun.datasets, width),
    ...problemTexts(result),
    [headline(dryRun), ...diskLines(dryRun)].join('\n'),
  ];
  return paragraphs.join('\n\n');
}

/** Datasets that are up to date have no row. */
function stepTable(datasets: readonly DryRunDataset[], width: number): readonly string[] {
  const rows = datasets.flatMap((dataset) => {
    const words = wordsOf(dataset);
    return words === null ? [] : [[dataset.id, words]];
  });
  const columns = [{ title: 'dataset' }, { title: 'next step', wraps: true }];
  return rows.length === 0 ? [] : [renderTable(columns, rows, width)];
}

/** The paragraphs below the table explain suspensions and failures. */
function wordsOf({ step, result, why }: DryRunDataset): string | null {
  if (step !== null) return stepWords(step);
  if (result === 'waiting') return `wait: ${why}`;
  if (result === 'suspended') return 'nothing: it is suspended';
  if (result === 'pinned') return 'nothing: it is pinned';
  return result === 'failed' ? 'nothing: it fails' : null;
}

const RETIREMENTS = {
  archive: 'move its table to the schema archived',
  drop: 'delete its table',
  keep: 'leave its table and follow it no more',
} as const;

function stepWords(step: PlannedStep): string {
  switch (step.kind) {
    case 'load': {
      const rows = step.rows === null ? '' : `${plural(step.rows, 'row')}, `;
      const size = step.bytes === null ? 'of unknown size' : formatBytes(step.bytes);
      return `load version ${step.toVersion}${inPlaceOf(step)} (${rows}${size}), because ${step.why}`;
    }
    case 'apply': {
      const rows = step.rows === null ? 'rows not counted' : plural(step.rows, 'changed row');
      const columns = step.addsColumns ? ', adding columns' : '';
      return `apply ${plural(step.versions, 'version')}, from ${step.fromVersion} to ${step.toVersion} (${rows})${columns}`;
    }
    case 'retire':
      return `${RETIREMENTS[step.how]} (${step.why})`;
  }
}

function inPlaceOf({ fromVersion, toVersion }: PlannedStep & { kind: 'load' }): string {
  if (fromVersion === null) return '';
  return fromVersion === toVersion ? ' again' : ` in place of version ${fromVersion}`;
}

/** Each suspension stands here once, however many datasets it suspends. */
function problemTexts({ datasets, suspensions, incidents }: CatchUpResult): readonly string[] {
  const ofDatasets = datasets.filter(isSuspendedItself).map(({ suspension }) => suspension);
  const failures = datasets.flatMap((dataset) =>
    dataset.kind === 'failed'
      ? [`Dataset ${printable(dataset.datasetId)}: ${formatError(dataset.error)}`]
      : [],
  );
  return [
    ...[...suspensions, ...ofDatasets].map(formatSuspension),
    ...failures,
    ...incidents.map(formatIncident),
  ];
}

const RESULTS: readonly Counted<DryRunDataset>[] = [
  { words: 'with work to do', counts: ({ result }) => result === 'planned' },
  { words: 'up to date', counts: ({ result }) => result === 'current' },
  { words: 'waiting', counts: ({ result }) => result === 'waiting' },
  { words: 'pinned', counts: ({ result }) => result === 'pinned' },
  { words: 'suspended', counts: ({ result }) => result === 'suspended' },
  { words: 'failing', counts: ({ result }) => result === 'failed' },
];

function headline({ datasets, totals, suspensions, incidents }: DryRun): string {
  if (datasets.length === 0 && suspensions.length + incidents.length > 0)
    return 'No dataset would be caught up.';
  const counts = `${formatCounts(plural(datasets.length, 'dataset'), datasets, RESULTS)}.`;
  if (datasets.every(({ step }) => step === null)) return counts;
  const unknown =
    totals.snapshotsOfUnknownSize === 0
      ? ''
      : ` and ${plural(totals.snapshotsOfUnknownSize, 'snapshot')} of unknown size`;
  return `${counts} ${formatBytes(totals.downloadBytes)} of snapshots${unknown}, ${plural(totals.rows, 'row')}.`;
}

function diskLines({ totals, disk }: DryRun): readonly string[] {
  if (totals.downloadBytes === 0) return [];
  const [needed, free, reserve] = [disk.neededBytes, disk.freeBytes, disk.reserveBytes].map(formatBytes);
  const kept = `and ${reserve} of them stay reserved (disk.reserve)`;
  return disk.isEnough
    ? [`Disk: about ${needed} are needed; ${free} are free, ${kept}.`]
    : [
        `Disk: about ${needed} are needed; only ${free} are free, ${kept}.`,
        '→ Free some space, or set dataDir to a larger disk.',
      ];
}
