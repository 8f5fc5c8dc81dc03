/**
 * Spools the changes of a version to files, page by page as received; staging decodes the rows. Pages are not synced to the
 * disk, because after a crash they are fetched again.
 *
 * Each page is still parsed here, for the flags around its rows. The stream has already checked size and depth, and a page of
 * 1,000 rows takes some milliseconds. The parsed rows are dropped, because parsing loses digits of integers.
 */

import { join } from 'node:path';
import { writeScratch } from '../lib/files.ts';
import { errorCodeOf, RefusalError } from '../model/errors.ts';
import type { Changes, ChangesRequest } from './feed.ts';
import type { Api } from './http/api.ts';
import { listChanges } from './http/operations.ts';
import { MAX_CHANGES_DEPTH } from './http/options.ts';
import { readPages } from './lists.ts';
import { onDisk, requireSpace } from './storage.ts';
import { violation } from './wire/fields.ts';
import { type ChangesPage, decodeChangesPage } from './wire/records.ts';
import { shown } from './wire/sanitize.ts';

const CHANGES_LIMIT = 1_000;
/** The version exists, so these statuses mean that its changes are missing, whatever the body contains. */
export const NOT_THERE: readonly number[] = [404, 410];
const NOT_RECORDED_CODE = 'changes_not_recorded';
const LACKS_SCOPE_CODE = 'insufficient_scope';

type SpooledPage = ChangesPage & { readonly path: string; readonly bytes: number };

interface ChangesParts {
  readonly api: Api;
  /** Bytes that must stay free on the disk. */
  readonly reserveBytes: number;
}

/** GET /v1/datasets/{datasetId}/changes?version=, for a version in the list of versions. */
export async function readChanges(
  parts: ChangesParts,
  request: ChangesRequest,
  signal: AbortSignal,
): Promise<Changes> {
  try {
    const pages = await readAllPages(parts, request, signal);
    const [first] = pages;
    if (first === undefined || pages.some(({ recorded }) => !recorded)) {
      return { recorded: false, why: 'the service says that it has not recorded them' };
    }
    const { previousVersion, schemaVersion } = first;
    refuseMixture(pages, first, listChanges(request.datasetId).title);
    return {
      recorded: true,
      previousVersion,
      schemaVersion,
      pages: pages.map(({ path }) => path),
      bytes: pages.reduce((sum, page) => sum + page.bytes, 0),
    };
  } catch (error) {
    const why = whyNotUsable(error);
    if (why === null) throw error;
    return { recorded: false, why };
  }
}

async function readAllPages(
  { api, reserveBytes }: ChangesParts,
  request: ChangesRequest,
  signal: AbortSignal,
): Promise<readonly SpooledPage[]> {
  const { datasetId, directory, onBytes, onStaging } = request;
  const operation = listChanges(datasetId);
  let position = 0;
  // A list that is read again overwrites its earlier pages.
  const sizes: number[] = [];
  let stagedBytes = 0;
  return readPages<SpooledPage>({
    title: operation.title,
    async read(cursor) {
      const { page, bytes } = await api.call(
        {
          operation,
          query: { version: request.version, limit: CHANGES_LIMIT, cursor },
          maxDepth: MAX_CHANGES_DEPTH,
          finalStatuses: NOT_THERE,
          decode: (body) => ({
            page: decodeChangesPage(body.json, request, operation.title),
            bytes: body.bytes,
          }),
        },
        signal,
      );
      position = cursor === null ? 0 : position + 1;
      onBytes(bytes.byteLength);
      stagedBytes += bytes.byteLength - (sizes[position] ?? 0);
      sizes[position] = bytes.byteLength;
      await onStaging?.(stagedBytes);
      await requireSpace(
        directory,
        bytes.byteLength,
        reserveBytes,
        `the changes of dataset ${shown(datasetId)}`,
      );
      const path = join(directory, `changes-${String(position).padStart(5, '0')}.json`);
      await onDisk(path, () => writeScratch('feed.spool-changes', path, bytes));
      return { ...page, path, bytes: bytes.byteLength };
    },
    isEnough: ({ recorded }) => !recorded,
  });
}

/** Returns null when the error says nothing about the changes themselves. */
function whyNotUsable(error: unknown): string | null {
  if (errorCodeOf(error) === 'response_too_large') return 'a page of them is larger than http.maxJsonBytes';
  return error instanceof RefusalError ? whyNotRecorded(error) : null;
}

/** Refuses pages that describe the version differently. */
function refuseMixture(pages: readonly SpooledPage[], first: SpooledPage, title: string): void {
  for (const page of pages) {
    if (page.previousVersion !== first.previousVersion) {
      throw violation(title, 'previousVersion', 'differs from page to page');
    }
    if (page.schemaVersion !== first.schemaVersion) {
      throw violation(title, 'schemaVersion', 'differs from page to page');
    }
  }
}

/** True when the key may not read changes. It may still be valid for everything else. */
export function lacksScope({ refusal }: RefusalError): boolean {
  return refusal.status !== 401 && refusal.code === LACKS_SCOPE_CODE;
}

/** Returns null for a refusal that an operator has to act on. */
export function whyNotRecorded(error: RefusalError): string | null {
  const { refusal } = error;
  if (refusal.status === 401) return null;
  if (lacksScope(error)) return 'the key lacks the scope to read them';
  if (refusal.code === NOT_RECORDED_CODE) return 'the service says that it has not recorded them';
  const { status } = refusal;
  return status !== null && NOT_THERE.includes(status) ? `the service answered ${status} for them` : null;
}
