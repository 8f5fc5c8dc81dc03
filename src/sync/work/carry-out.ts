/** From a planned step of work to who carries it out, what is told of it, and what is at fault where it fails. */

import { present, unreachable } from '../../lib/assert.ts';
import { formatCount } from '../../lib/units.ts';
import { BadChangesError, type DataError } from '../../model/errors.ts';
import type { Counts, Version } from '../../model/version.ts';
import type { OfferBook } from '../offer-book.ts';
import { changesContentOf, contentOf } from '../plan/content.ts';
import type { History } from '../plan/history.ts';
import { recordOf } from '../plan/schemas.ts';
import type { Known } from '../plan/state.ts';
import type { Plan } from '../plan/step.ts';
import type { Extent } from '../progress.ts';
import { applyChanges } from './apply-changes.ts';
import { loadSnapshot } from './load-snapshot.ts';
import { retire } from './retire.ts';
import type { Tools, WorkOutcome } from './work.ts';

/** The steps that change the destination. */
export type Work = Extract<Plan, { kind: 'load' | 'apply' | 'retire' }>;

export interface Ground {
  readonly known: Known;
  readonly history: History | null;
  readonly offers: OfferBook;
}

export function carryOut(work: Work, { known, history, offers }: Ground, tools: Tools): Promise<WorkOutcome> {
  const { held } = known;
  switch (work.kind) {
    case 'load': {
      const { offer, reloads } = work;
      const load = {
        held,
        history: present(history, 'a load is planned with the history'),
        offer,
        offers: offers.manifestOf(offer),
        reloads,
      };
      return loadSnapshot(load, tools);
    }
    case 'apply': {
      const application = {
        held: present(held, 'changes are applied to a table'),
        history: present(history, 'changes are planned with the history'),
        versions: work.versions,
        schema: work.schema,
        addsColumns: work.addsColumns,
        maxSpooledBytes: isLarge(work, { history }) ? MAX_SPOOLED_BYTES : MAX_SMALL_BYTES,
        maxStagedBytes: tools.parts.choices.maxStagedBytes,
      };
      return applyChanges(application, tools);
    }
    case 'retire':
      return retire(present(held, 'what is retired has a table'), work, tools);
    default:
      return unreachable(work);
  }
}

/** For people, while it goes on. */
export function descriptionOf(work: Work): string {
  switch (work.kind) {
    case 'load':
      return `loading version ${work.offer.entry.version}`;
    case 'apply': {
      const { length } = work.versions;
      return `applying ${formatCount(length)} version${length === 1 ? '' : 's'}`;
    }
    case 'retire':
      return 'retiring';
  }
}

/** Rows of a snapshot are those of the version's record, else of the manifest. */
export function extentOf(work: Work, { history }: Pick<Ground, 'history'>): Extent {
  switch (work.kind) {
    case 'load': {
      const { version, rowCount, files } = work.offer.entry;
      const record = history === null ? null : recordOf(version, history);
      return { bytes: sumOf(files.map(({ bytes }) => bytes)), rows: record?.rowCount ?? rowCount };
    }
    case 'apply':
      return { bytes: null, rows: sumOf(work.versions.map(({ counts }) => counts && rowsOf(counts))) };
    case 'retire':
      return { bytes: null, rows: null };
  }
}

/**
 * What a small snapshot has at the most, and what is spooled of small changes before no further version is begun: as
 * many of either as are worked on at once stage half a gigabyte, and the versions that were under way come on top.
 */
export const MAX_SMALL_BYTES = 4_000_000;
/** What small changes list at the most. How many bytes that is nobody states; rows of a kilobyte or two stay within the above. */
export const MAX_SMALL_ROWS = 2_000;
/** What is spooled of large changes before no further version is begun; those that are under way come on top. */
const MAX_SPOOLED_BYTES = 500_000_000;

/** Whether much may be staged for it until it is committed. What is not known counts as much. */
export function isLarge(work: Work, ground: Pick<Ground, 'history'>): boolean {
  const { bytes, rows } = extentOf(work, ground);
  switch (work.kind) {
    case 'load':
      return bytes === null || bytes > MAX_SMALL_BYTES;
    case 'apply':
      return rows === null || rows > MAX_SMALL_ROWS;
    case 'retire':
      return false;
  }
}

/** Null where one of them is not known. */
function sumOf(numbers: readonly (number | null)[]): number | null {
  return numbers.reduce((sum, one) => (sum === null || one === null ? null : sum + one), 0);
}

function rowsOf({ added, changed, removed }: Counts): number {
  return added + changed + removed;
}

/** The identity of the content that failed: it is not fetched again for a day. Null: it was no content. */
export function contentAtFault(work: Work, error: DataError): string | null {
  switch (work.kind) {
    case 'load':
      return contentOf(work.offer.entry);
    case 'apply': {
      const last = present(work.versions.at(-1), 'a path has versions');
      const isBlamed = ({ version }: Version) =>
        error instanceof BadChangesError && version === error.version;
      return changesContentOf(work.versions.find(isBlamed) ?? last);
    }
    case 'retire':
      return null;
  }
}
