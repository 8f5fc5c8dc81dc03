/**
 * Downloads the files of a snapshot, several at a time.
 *
 * Invariant: when the download ends, in whatever way, nothing writes into the folder any more, and every file under its
 * final name is
 * whole and verified.
 */

import type { LimitFunction } from 'p-limit';
import pLimit from 'p-limit';
import { formatCount } from '../../lib/units.ts';
import { InterruptedError, ServiceUnavailableError } from '../../model/errors.ts';
import type { Download, DownloadRequest } from '../feed.ts';
import { throwIfStopped } from '../http/cancellation.ts';
import { requireSpace } from '../storage.ts';
import { shown } from '../wire/sanitize.ts';
import { type Fetched, type FetchParts, FreshLinks, fetchFile, Superseded } from './fetch-file.ts';
import { type FileJob, fileJobs, statesDigests } from './file-job.ts';
import { partPathOf, sizeOf } from './part-file.ts';

/** Files downloaded at once over all datasets: enough for a fast line, few enough for a small service. */
export const FILES_AT_ONCE = 4;

type Downloads = (request: DownloadRequest, signal: AbortSignal) => Promise<Download>;

interface DownloadsParts extends Omit<FetchParts, 'directory' | 'begunHere'> {
  readonly concurrency: number;
}

export function createDownloads(parts: DownloadsParts): Downloads {
  const limit = pLimit(parts.concurrency);
  const begunHere = new Set<string>();
  return (request, signal) =>
    download(request, { ...parts, directory: request.directory, begunHere }, limit, signal);
}

async function download(
  request: DownloadRequest,
  parts: FetchParts,
  limit: LimitFunction,
  signal: AbortSignal,
): Promise<Download> {
  throwIfStopped(signal);
  const jobs = fileJobs(request.entry, request.directory);
  // Two files of the same content are one file on disk.
  const distinct = [...new Map(jobs.map((job) => [job.path, job])).values()];
  await requireSpaceFor(distinct, request, parts.reserveBytes);
  const links = new FreshLinks(request.entry, request.refresh);
  const fetch = (some: readonly FileJob[]) => fetchAll(some, links, request, parts, limit, signal);
  try {
    const fetched = await fetch(distinct);
    const isSurelyOneContent = await refuseMixture(distinct, fetched, links, fetch);
    const files = jobs.flatMap(({ path, name, file }) => {
      const found = fetched.get(path);
      if (found === undefined) return [];
      return [{ path, name, bytes: found.bytes, sha256: found.sha256, rowCount: file.rowCount }];
    });
    const digestKind = statesDigests(request.entry) ? 'stated' : 'computed';
    return { kind: 'complete', files, digestKind, isSurelyOneContent };
  } catch (error) {
    if (error instanceof Superseded) return { kind: 'superseded', entry: error.entry };
    throw error;
  }
}

/** The first failure stops the others, and is thrown once they have stopped. */
async function fetchAll(
  jobs: readonly FileJob[],
  links: FreshLinks,
  { onBytes }: DownloadRequest,
  parts: FetchParts,
  limit: LimitFunction,
  signal: AbortSignal,
): Promise<FetchedFiles> {
  const others = new AbortController();
  const either = AbortSignal.any([signal, others.signal]);
  const fetched = new Map<string, Fetched>();
  const failures: unknown[] = [];
  const fetchOne = async (job: FileJob): Promise<void> => {
    try {
      throwIfStopped(either);
      fetched.set(job.path, await fetchFile(job, links, parts, onBytes, either));
    } catch (error) {
      failures.push(error);
      others.abort(new InterruptedError('Another file of the snapshot failed.'));
    }
  };
  await limit.map(jobs, fetchOne);
  if (failures.length > 0) throw failures[0];
  return fetched;
}

async function requireSpaceFor(
  jobs: readonly FileJob[],
  { directory, entry }: DownloadRequest,
  reserveBytes: number,
): Promise<void> {
  let neededBytes = 0;
  for (const { file, path } of jobs) {
    if ((await sizeOf(path)) !== null) continue;
    neededBytes += Math.max(0, (file.bytes ?? 0) - ((await sizeOf(partPathOf(path))) ?? 0));
  }
  if (neededBytes === 0) return;
  await requireSpace(directory, neededBytes, reserveBytes, `the files of dataset ${shown(entry.datasetId)}`);
}

/** How often all files are requested again because links expired meanwhile. */
const MAX_ROUNDS = 4;

/** By the path of the file. */
type FetchedFiles = ReadonlyMap<string, Fetched>;

/**
 * Verifies by digests or tags that all files belong together. `jobs` are distinct, `fetched` are their existing files, and
 * `fetchAgain`
 * requests existing files again. @throws Superseded where the files do not belong together, or where nothing proves it after the
 * manifest was read again
 */
async function refuseMixture(
  jobs: readonly FileJob[],
  fetched: FetchedFiles,
  links: FreshLinks,
  fetchAgain: (jobs: readonly FileJob[]) => Promise<FetchedFiles>,
): Promise<boolean> {
  const [first] = jobs;
  if (first === undefined || jobs.length === 1 || first.belongsByDigest) return true;
  const isTagged = ({ path }: FileJob): boolean => (fetched.get(path)?.etag ?? null) !== null;
  const tagged = jobs.filter(isTagged);
  const untagged = jobs.filter((job) => job.file.sha256 === null && !isTagged(job));
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const { renewals } = links;
    if (untagged.some(({ path }) => fetched.get(path)?.renewals !== renewals)) {
      throw links.supersededByRenewal();
    }
    const again = await fetchAgain(tagged);
    if ([...again.values()].some(({ isUnchanged }) => !isUnchanged)) {
      throw await links.supersededByReplacement();
    }
    if (links.renewals === renewals) return untagged.length === 0;
  }
  throw linksTooShort(first, jobs.length);
}

function linksTooShort({ datasetId, version }: FileJob, files: number): ServiceUnavailableError {
  const snapshot = `the ${formatCount(files)} files of dataset ${shown(datasetId)}, version ${version}`;
  return new ServiceUnavailableError(
    `Could not tell whether ${snapshot} are of one content: their links expire before all of them were asked about.`,
    {
      hint: 'They are asked about again later. If it stays so, ask the service to state the digests of the files.',
    },
  );
}
