/**
 * Spools the changes of a version to files, page by page as received; staging decodes the rows. Pages are not synced to the
 * disk, because after a crash they are fetched again.
 *
 * Only the flags around the rows are parsed here. The stream is checked for size, depth and validity as JSON, byte by byte; no
 * row becomes a value of JavaScript, which would lose digits of integers.
 */

import { dirname } from 'node:path';
import { writeScratch } from '../lib/files.ts';
import { shown } from '../lib/text.ts';
import { onDisk } from '../model/disk-errors.ts';
import { errorCodeOf, RefusalError } from '../model/errors.ts';
import type { Changes, ChangesRequest } from './feed.ts';
import type { Api } from './http/api.ts';
import { readPages } from './lists.ts';
import { listChanges, NOT_THERE } from './operations.ts';
import { requireSpace } from './storage.ts';
import { violation } from './wire/fields.ts';
import type { ChangesPage } from './wire/records.ts';

const CHANGES_LIMIT = 1_000;
const NOT_RECORDED_CODE = 'changes_not_recorded';
const LACKS_SCOPE_CODE = 'insufficient_scope';
export const NOT_RECORDED = 'the service says that it has not recorded them';

/** Reads GET /v1/datasets/{datasetId}/changes?version=, for a version in the list of versions. */
export async function readChanges(
  api: Api,
  request: ChangesRequest,
  reserveBytes: number,
  signal: AbortSignal,
): Promise<Changes> {
  const { datasetId, version, pathOf, onBytes, onStaging } = request;
  const operation = listChanges(datasetId, version);
  // A list that is read again overwrites its earlier pages.
  const sizes: number[] = [];
  const spool = async (bytes: Buffer, position: number): Promise<void> => {
    onBytes(bytes.byteLength);
    sizes[position] = bytes.byteLength;
    await onStaging?.(sum(sizes));
    const what = `the changes of dataset ${shown(datasetId)}`;
    const path = pathOf(position);
    await requireSpace(dirname(path), bytes.byteLength, reserveBytes, what);
    await onDisk(path, () => writeScratch('feed.spool-changes', path, bytes));
  };
  try {
    const { pages } = await readPages(api, operation, signal, {
      limit: CHANGES_LIMIT,
      isEnough: ({ recorded }) => !recorded,
      onPage: ({ bytes }, position) => spool(bytes, position),
    });
    const [first] = pages;
    if (first === undefined || pages.some(({ recorded }) => !recorded)) {
      return { recorded: false, why: NOT_RECORDED };
    }
    const { previousVersion, schemaVersion } = first;
    refuseMixture(pages, first, operation.title);
    return {
      recorded: true,
      previousVersion,
      schemaVersion,
      pages: pages.map((_, position) => pathOf(position)),
      bytes: sum(sizes.slice(0, pages.length)),
    };
  } catch (error) {
    const why = whyNotUsable(error);
    if (why === null) throw error;
    return { recorded: false, why };
  }
}

function sum(sizes: readonly number[]): number {
  return sizes.reduce((bytes, size) => bytes + size, 0);
}

/** Returns null when the error says nothing about the changes themselves. */
function whyNotUsable(error: unknown): string | null {
  if (errorCodeOf(error) === 'response_too_large') return 'a page of them is larger than http.maxJsonBytes';
  return error instanceof RefusalError ? whyNotRecorded(error) : null;
}

/** Refuses pages that describe the version differently. */
function refuseMixture(pages: readonly ChangesPage[], first: ChangesPage, title: string): void {
  for (const page of pages) {
    if (page.previousVersion !== first.previousVersion) {
      throw violation(title, 'previousVersion', 'differs from page to page');
    }
    if (page.schemaVersion !== first.schemaVersion) {
      throw violation(title, 'schemaVersion', 'differs from page to page');
    }
  }
}

/** Returns whether the key may not read changes. It may still be valid for everything else. */
export function lacksScope({ refusal }: RefusalError): boolean {
  return refusal.status !== 401 && refusal.code === LACKS_SCOPE_CODE;
}

/** Returns null for a refusal that an operator has to act on. */
export function whyNotRecorded(error: RefusalError): string | null {
  const { refusal } = error;
  if (refusal.status === 401) return null;
  if (lacksScope(error)) return 'the key lacks the scope to read them';
  if (refusal.code === NOT_RECORDED_CODE) return NOT_RECORDED;
  const { status } = refusal;
  return status !== null && NOT_THERE.includes(status) ? `the service answered ${status} for them` : null;
}
