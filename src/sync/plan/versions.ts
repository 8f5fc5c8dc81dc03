/** What a list of versions says of the table's version, of announced ones and of manifest entries. Pure. */

import type { HeldDataset } from '../../destination/destination.ts';
import type { AbsenceSubject } from '../../model/absence.ts';
import type { ManifestEntry } from '../../model/manifest.ts';
import { announcedVersions, type Want } from '../../model/want.ts';
import { momentOf } from '../../model/watermark.ts';
import type { History } from './history.ts';
import { publishedAtOf, recordOf } from './schemas.ts';
import type { DifferingCounts, Offer } from './step.ts';
import { headOf } from './walk.ts';

/** How a list names the version of a table. */
export type Naming =
  /** This very version. */
  | 'named'
  /** Another version under its number. */
  | 'another'
  /** Not at all, while it names lower ones as newest. */
  | 'absent'
  /** Not at all, and what it names says no more. */
  | 'unknown';

type Published = Pick<HeldDataset, 'version' | 'publishedAt' | 'rowCount'>;

/** Where versions higher than the table's are named, and its own is not, the chain of versions says what follows. */
export function namingOf(table: Published, history: History): Naming {
  const record = recordOf(table.version, history);
  if (record !== null) {
    const isAnotherTime =
      table.publishedAt !== null &&
      record.publishedAt !== null &&
      table.publishedAt.getTime() !== record.publishedAt.getTime();
    const isAnotherCount = record.rowCount !== null && record.rowCount !== table.rowCount;
    return isAnotherTime || isAnotherCount ? 'another' : 'named';
  }
  const head = headOf(history);
  return head !== null && head.version < table.version ? 'absent' : 'unknown';
}

/** Whether the list, read so far back, can say that the table's version is absent. */
export function mayLackTable(table: Published, history: History): boolean {
  return recordOf(table.version, history) === null && (headOf(history)?.version ?? -1) < table.version;
}

/** The versions that a list does not name while it names lower ones as newest: the table's own, and what was announced. */
export function absentVersions(
  table: Published | null,
  want: Want,
  history: History,
): readonly AbsenceSubject[] {
  const head = headOf(history);
  if (head === null) return [];
  const expected = [...(table === null ? [] : [table.version]), ...announcedVersions(want)];
  const above = expected.filter((version) => version > head.version);
  return [...new Set(above)].map((version) => ({ kind: 'version', datasetId: want.datasetId, version }));
}

/**
 * Whether an offer counts: the list, read after it, names its version, with the same number of rows where both state one, and
 * as published before the manifest was read.
 * - `unread`: no list was read since.
 * - `unnamed`: it belongs to another time of the dataset, or the list lags.
 */
export function standingOfOffer(
  { entry, readAt }: Pick<Offer, 'entry' | 'readAt'>,
  history: History,
): 'named' | 'unnamed' | 'unread' {
  if (!history.entriesBefore.has(entry)) return 'unread';
  const record = recordOf(entry.version, history);
  if (record === null) return 'unnamed';
  const { publishedAt } = record;
  const isPublishedBefore = publishedAt === null || publishedAt < momentOf(readAt);
  return isPublishedBefore && differingCounts(entry, history) === null ? 'named' : 'unnamed';
}

/** Null: the list names the version with the same number of rows, or does not name it, or one of the two states no number. */
export function differingCounts(
  { version, rowCount: offeredRows }: ManifestEntry,
  history: History,
): DifferingCounts | null {
  const listedRows = recordOf(version, history)?.rowCount ?? null;
  if (listedRows === null || offeredRows === null || listedRows === offeredRows) return null;
  return { version, offeredRows, listedRows };
}

/**
 * Whether a version that an entry has was published anew between two lists: which of the two it is the entry does not say, where
 * service time, which has whole seconds, does not tell them apart.
 */
export function isAnyReplaced(entries: readonly ManifestEntry[], before: History, after: History): boolean {
  return entries.some(({ version }) => {
    const was = publishedAtOf(version, before);
    const is = publishedAtOf(version, after);
    return was !== null && is !== null && was.getTime() !== is.getTime();
  });
}
