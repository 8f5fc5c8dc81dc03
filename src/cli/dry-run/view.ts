/** What a dry run foresees, as data: the shape of `once --dry-run --json`; fields are only ever added. Pure. */

import type { ForeseenStep } from '../../sync/foresee.ts';
import { type HoldStatus, holdStatus } from '../../sync/hold-status.ts';
import type { CatchUpResult, DatasetResult } from '../../sync/result.ts';
import { type TroubleMet, troubleMet } from '../trouble-met.ts';

export interface DryRun {
  readonly datasets: readonly DryRunDataset[];
  readonly totals: DryRunTotals;
  readonly disk: DiskForecast;
  /** Of the workspace, of subscriptions and of retirements. */
  readonly holds: readonly HoldStatus[];
  /** Of subscriptions and of the run: what they would have asked for is not in here. */
  readonly troubles: readonly (TroubleMet & { readonly subscription: string | null })[];
}

export interface DryRunDataset {
  readonly id: string;
  /** In the order in which they would be carried out. */
  readonly steps: readonly ForeseenStep[];
  /** What would be told of it after these steps. */
  readonly ending: DatasetResult['kind'];
  /** Why it would wait or fail; null for the other endings. */
  readonly why: string | null;
  readonly hold: HoldStatus | null;
}

export interface DryRunTotals {
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
export interface DiskForecast {
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
  readonly steps: ReadonlyMap<string, readonly ForeseenStep[]>;
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
      hold: dataset.kind === 'held' ? holdStatus(dataset.hold) : null,
    })),
    totals,
    disk: { neededBytes, ...disk, isEnough: disk.freeBytes - neededBytes >= disk.reserveBytes },
    holds: result.holds.map(holdStatus),
    troubles: result.troubles.map(({ subscriptionId, error }) => ({
      subscription: subscriptionId,
      ...troubleMet(error),
    })),
  };
}

function totalsOf(steps: readonly ForeseenStep[]): DryRunTotals {
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
