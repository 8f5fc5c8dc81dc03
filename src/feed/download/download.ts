/**
 * Downloads the files of a snapshot, several at a time.
 *
 * Invariant: when the download ends, in whatever way, nothing writes into the folder any more, and every file under its final
 * name is whole and verified.
 */

import pLimit, { type LimitFunction } from 'p-limit';
import { shown } from '../../lib/text.ts';
import { plural } from '../../lib/units.ts';
import { InterruptedError, ServiceUnavailableError } from '../../model/errors.ts';
import type { ManifestEntry, ManifestFile } from '../../model/manifest.ts';
import type { Download, DownloadRequest, Feed } from '../feed.ts';
import { throwIfStopped } from '../http/failures.ts';
import { type FeedOptions, limitsOf, retryPolicy } from '../http/options.ts';
import { requireSpace } from '../storage.ts';
import type { FileSource } from './attempt-file.ts';
import { createDigests } from './digest.ts';
import { type Fetched, type FetchParts, fetchFile } from './fetch-file.ts';
import { RangeSlots } from './side-by-side.ts';
import { type FileJob, fileJobs, partPathOf, pathOf, sizeOf, statesDigests } from './snapshot-file.ts';

/** Files downloaded at once over all datasets: enough for a fast line, few enough for a small service. */
const FILES_AT_ONCE = 4;

/** Files and ranges at once over all datasets, which limits the memory of the ranges, too. */
const STREAMS_AT_ONCE = 8;

export function createDownloads(
  source: FileSource,
  options: FeedOptions,
): Pick<Feed, 'download' | 'progress'> {
  const { connections } = options.http;
  // Files may come from the service's own origin. They must not occupy all connections to it for hours.
  const mostAtOnce = Math.max(1, Math.min(FILES_AT_ONCE, connections - 1));
  const filesAtOnce = options.downloads.concurrency ?? mostAtOnce;
  const limit = pLimit(filesAtOnce);
  const limits = limitsOf(options);
  const shared = {
    source,
    options,
    limits,
    reserveBytes: options.diskReserveBytes,
    retryPolicy: retryPolicy(options, limits.fileDeadlineMs),
    rangeSlots: new RangeSlots(limit, filesAtOnce, Math.min(connections - 1, STREAMS_AT_ONCE)),
    digests: createDigests(limits.digestThreadFromBytes),
    begunHere: new Set<string>(),
    verifiedHere: new Set<string>(),
  };
  return {
    download: (request, signal) =>
      download(
        request,
        { ...shared, directory: request.directory, onBytes: request.onBytes, signal },
        limit,
      ).finally(() => shared.digests.endIdle()),
    progress: () => shared.digests.readBytes,
  };
}

async function download(
  request: DownloadRequest,
  parts: FetchParts,
  limit: LimitFunction,
): Promise<Download> {
  throwIfStopped(parts.signal);
  const jobs = fileJobs(request.entry, request.directory);
  // Two files of the same content are one file on disk.
  const distinct = [...new Map(jobs.map((job) => [job.path, job])).values()];
  await requireSpaceFor(distinct, request, parts.reserveBytes);
  const links = new FreshLinks(request.entry, request.refresh);
  const fetch = (some: readonly FileJob[]) => fetchAll(some, links, parts, limit);
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
  parts: FetchParts,
  limit: LimitFunction,
): Promise<FetchedFiles> {
  const others = new AbortController();
  const signal = AbortSignal.any([parts.signal, others.signal]);
  const fetched = new Map<string, Fetched>();
  const failures: unknown[] = [];
  const fetchOne = async (job: FileJob): Promise<void> => {
    try {
      throwIfStopped(signal);
      fetched.set(job.path, await fetchFile(job, links, { ...parts, signal }));
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
 * `fetchAgain` requests existing files again.
 * @throws Superseded where the files do not belong together, or where nothing proves it after the manifest was read again
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
  const snapshot = `the ${plural(files, 'file')} of dataset ${shown(datasetId)}, version ${version}`;
  return new ServiceUnavailableError(
    `Could not determine whether ${snapshot} are of one content: their links expire before all of them were asked about.`,
    {
      hint: 'They are asked about again later. If it stays so, ask the service to state the digests of the files.',
    },
  );
}

/** The manifest names other content by now, or no longer lists the dataset. Ends the download of the snapshot. */
export class Superseded extends Error {
  readonly entry: ManifestEntry | null;

  constructor(entry: ManifestEntry | null) {
    super('the manifest names other content');
    this.entry = entry;
  }
}

/** The links to the files of a snapshot, replaced for all files at once when they expire. */
export class FreshLinks {
  readonly #refresh: () => Promise<ManifestEntry | null>;
  #entry: ManifestEntry;
  #refreshing: Promise<void> | null = null;
  #renewals = 0;

  constructor(entry: ManifestEntry, refresh: () => Promise<ManifestEntry | null>) {
    this.#entry = entry;
    this.#refresh = refresh;
  }

  /** How often all links were replaced. */
  get renewals(): number {
    return this.#renewals;
  }

  /** The newest link to the file at `position`. */
  of(position: number): string {
    return this.#entry.files[position]?.url ?? '';
  }

  /**
   * `expired` is the link to the file at `position` that has expired. Does nothing where the link was replaced already.
   * @throws Superseded, and the errors of reading the manifest
   */
  async replace(position: number, expired: string): Promise<void> {
    if (this.of(position) !== expired) return;
    this.#refreshing ??= this.#readAgain().finally(() => {
      this.#refreshing = null;
    });
    await this.#refreshing;
  }

  async #readAgain(): Promise<void> {
    const latest = await this.#refresh();
    if (latest === null || !isSameContent(latest, this.#entry)) throw new Superseded(latest);
    this.#entry = latest;
    this.#renewals += 1;
  }

  /** Returns the error for a renewed entry that is not proven to have the content of the files fetched before. */
  supersededByRenewal(): Superseded {
    return new Superseded(this.#entry);
  }

  /**
   * Returns the error for content that was replaced under its links; reads the manifest again, which may name the new
   * content by now.
   */
  async supersededByReplacement(): Promise<Superseded> {
    return new Superseded(await this.#refresh());
  }
}

/**
 * Returns whether both entries may be the same version in the same files. Files without a digest are compared by their place: an entity
 * tag says nothing about a file elsewhere.
 */
function isSameContent(left: ManifestEntry, right: ManifestEntry): boolean {
  if (left.version !== right.version || left.files.length !== right.files.length) return false;
  const isSameFile = (file: ManifestFile, other: ManifestFile | undefined): boolean =>
    file.sha256 === other?.sha256 && file.bytes === other.bytes;
  if (!left.files.every((file, position) => isSameFile(file, right.files[position]))) return false;
  return statesDigests(left) || isStatedAlike(left, right);
}

function isStatedAlike(left: ManifestEntry, right: ManifestEntry): boolean {
  if (left.rowCount !== right.rowCount || left.schemaVersion !== right.schemaVersion) return false;
  return left.files.every(({ url, rowCount }, position) => {
    const other = right.files[position];
    return other !== undefined && rowCount === other.rowCount && pathOf(url) === pathOf(other.url);
  });
}
