/** What `status` tells of what complete reads lack, without an event that says so, and what is not sure yet. Pure. */

import { unreachable } from '../../lib/assert.ts';
import { printable } from '../../lib/printable.ts';
import { type Absence, absenceKey, confirmedAt } from '../../model/absence.ts';
import { tellMoment } from '../moments.ts';
import type { AbsenceStatus } from './shape.ts';

const NAMED_BY_NOTHING = { subscriptionId: null, datasetId: null, version: null };

/** In an order that does not depend on when they were noted. */
export function absencesStatus(absences: readonly Absence[]): readonly AbsenceStatus[] {
  const sorted = absences.toSorted((left, right) =>
    absenceKey(left.subject) < absenceKey(right.subject) ? -1 : 1,
  );
  return sorted.map((absence) => {
    const { kind, subscriptionId, datasetId, version } = { ...NAMED_BY_NOTHING, ...absence.subject };
    return {
      kind,
      subscriptionId,
      datasetId,
      version,
      since: absence.since.toISOString(),
      confirmedAfter: confirmedAt(absence).toISOString(),
    };
  });
}

/** Null where nothing is absent. */
export function absencesText(absences: readonly AbsenceStatus[]): string | null {
  const lines = absences.map((absence) => {
    const { since, confirmedAfter } = absence;
    return `${absentWords(absence)} since ${tellMoment(since)}, confirmed after ${tellMoment(confirmedAfter)}.`;
  });
  return lines.length === 0 ? null : lines.join('\n');
}

function absentWords({ kind, subscriptionId, datasetId, version }: AbsenceStatus): string {
  const subscription = printable(subscriptionId ?? '');
  const dataset = printable(datasetId ?? '');
  switch (kind) {
    case 'member':
      return `Dataset ${dataset} is absent from subscription ${subscription}`;
    case 'subscription':
      return `Subscription ${subscription} is absent from the list of subscriptions`;
    case 'log':
      return `The newest event that was read is absent from the log of subscription ${subscription}`;
    case 'version':
      return `Version ${version} of dataset ${dataset} is absent from the list of versions`;
    case 'table':
      return `Dataset ${dataset}, which has a table, is absent from every subscription`;
    default:
      return unreachable(kind);
  }
}
