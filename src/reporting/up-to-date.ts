/** Whether datasets and subscriptions have everything that was published: one decision for `status` and the status page. Pure. */

import { formatCount } from '../lib/units.ts';
import type { DatasetReport } from './report.ts';

/** A dataset is in the first condition that applies. */
export const DATASET_CONDITIONS = [
  'left out',
  'pinned',
  'suspended',
  'failed',
  'to be retired',
  'up to date',
  'to be loaded',
  'behind',
  'not known',
] as const;

export type DatasetCondition = (typeof DATASET_CONDITIONS)[number];

export function datasetCondition({ isChosen, phase, retirement, need }: DatasetReport): DatasetCondition {
  if (!isChosen) return 'left out';
  if (phase === 'pinned' || phase === 'suspended' || phase === 'failed') return phase;
  if (retirement !== null) return 'to be retired';
  switch (need) {
    case 'nothing':
      return 'up to date';
    case 'table':
      return 'to be loaded';
    case null:
      return 'not known';
    default:
      return 'behind';
  }
}

/** The numbers of a subscription's datasets that are behind and pinned; null where they are not known. */
export interface Backlog {
  /** Suspended and failed datasets are behind like others. */
  readonly behind: number;
  readonly pinned: number;
}

export function backlogOf(subscriptionId: string, datasets: Iterable<DatasetReport>): Backlog | null {
  const backlog = { behind: 0, pinned: 0 };
  for (const { desired, isChosen, phase, need } of datasets) {
    if (!isChosen || desired?.members.has(subscriptionId) !== true) continue;
    if (phase === 'pinned') backlog.pinned += 1;
    else if (need === null) return null;
    else if (need !== 'nothing') backlog.behind += 1;
  }
  return backlog;
}

/** Returns `up to date`, `2 datasets are behind; 1 is pinned`. */
export function backlogWords(backlog: Backlog | null): string {
  if (backlog === null) return 'followed';
  const { behind, pinned } = backlog;
  const words = [
    ...(behind === 0
      ? []
      : [behind === 1 ? '1 dataset is behind' : `${formatCount(behind)} datasets are behind`]),
    ...(pinned === 0
      ? []
      : [pinned === 1 ? '1 dataset is pinned' : `${formatCount(pinned)} datasets are pinned`]),
  ];
  return words.length === 0 ? 'up to date' : words.join('; ');
}
