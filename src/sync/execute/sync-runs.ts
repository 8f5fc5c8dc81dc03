/** Writes the sync runs of a dataset, in words for an operator. */

import { formatCount, plural } from '../../lib/units.ts';
import type { CommitResult } from '../../model/commits.ts';
import type { Parts } from '../parts.ts';

export function noteLoad(
  datasetId: string,
  { fromVersion, toVersion, rowCount }: CommitResult,
  why: string,
  parts: Parts,
): void {
  // The first load of a table needs no reason.
  const reason = fromVersion === null ? '' : `: ${why}`;
  note('loaded', datasetId, `version ${toVersion}, ${plural(rowCount, 'row')}${reason}`, parts);
}

export function noteChanges(datasetId: string, commit: CommitResult, parts: Parts): void {
  const { fromVersion, toVersion, versions, net } = commit;
  const coalesced = versions === 1 ? '' : ` (${formatCount(versions)} versions)`;
  const rows =
    net === null
      ? ''
      : `: ${formatCount(net.added)} added, ${formatCount(net.changed ?? 0)} changed, ${formatCount(net.removed)} removed`;
  note('applied', datasetId, `version ${fromVersion} to ${toVersion}${coalesced}${rows}`, parts);
}

export function noteRepair(datasetId: string, commit: CommitResult, parts: Parts): void {
  const { toVersion: version, net, rowCount: rows, bytes } = commit;
  const durationMs = Math.round(commit.durationMs);
  const { added = 0, changed = 0, removed = 0 } = net ?? {};
  parts.log.info(
    { dataset: datasetId, version, added, changed, removed, rows, bytes, durationMs },
    'Repaired a table.',
  );
  const counts = `${formatCount(added)} added, ${formatCount(changed ?? 0)} changed, ${formatCount(removed)} removed`;
  note('repaired', datasetId, `version ${version}: ${counts}`, parts);
}

/** Notes that the dataset falls back to the snapshot, because its changes cannot be used. */
export function noteInapplicable(
  datasetId: string,
  inapplicable: ReadonlyMap<number, string>,
  parts: Parts,
): void {
  for (const [version, why] of inapplicable) {
    parts.log.info({ dataset: datasetId, version, why }, 'Fell back to the snapshot.');
    note('fell back', datasetId, `from the changes of version ${version} to the snapshot: ${why}`, parts);
  }
}

export function noteRollback(
  datasetId: string,
  { fromVersion, toVersion }: CommitResult,
  parts: Parts,
): void {
  note('rolled back', datasetId, `version ${fromVersion} to ${toVersion}, for an operator; pinned`, parts);
}

export function noteRetirement(datasetId: string, reason: string, table: string | null, parts: Parts): void {
  const where = table === null ? 'dropped' : `its rows are in ${table}`;
  note('retired', datasetId, `${reason}; ${where}`, parts);
}

function note(kind: string, datasetId: string, detail: string, { checkpoint, clock }: Parts): void {
  checkpoint.recordSyncRun({ at: clock.now(), kind, datasetId, detail });
}
