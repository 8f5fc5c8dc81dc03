/**
 * Keeps the files of content that awaits approval, and finds them again once it is let through: with the digest that they had when
 * the content was judged, because what is committed is what was judged.
 */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import type { DownloadedFile } from '../../feed/feed.ts';
import { present } from '../../lib/assert.ts';
import type { CandidateContent, CandidateVersion } from '../../model/candidate.ts';
import type { ListedEntry } from '../../model/manifest.ts';
import type { FetchedVersion } from './fetch-changes.ts';
import type { Staging } from './staging-folder.ts';
import type { Tools, WorkOf } from './step-tools.ts';

type SnapshotContent = Extract<CandidateContent, { readonly kind: 'snapshot' }>;

/** Keeps the snapshot of a candidate, without the signatures of its links. */
export async function keepSnapshot(
  files: readonly DownloadedFile[],
  listedEntry: ListedEntry,
  reloads: SnapshotContent['reloads'],
  { parts, staging }: Tools,
): Promise<CandidateContent> {
  const { entry } = listedEntry;
  const names = new Map(files.map(({ path }) => [path, basename(path)]));
  await staging.keepCandidate(entry.datasetId, names, parts.choices.keepCandidatesBytes);
  const withoutQuery = entry.files.map((file) => ({ ...file, url: file.url.split(/[?#]/, 1)[0] ?? '' }));
  return {
    kind: 'snapshot',
    listed: { ...listedEntry, entry: { ...entry, files: withoutQuery } },
    reloads,
    files: files.map(({ path, ...file }) => ({ ...file, keptAs: basename(path) })),
  };
}

export async function keepChanges(
  datasetId: string,
  fetched: readonly FetchedVersion[],
  { parts, staging }: Tools,
): Promise<CandidateContent> {
  const names = fetched.flatMap(({ pages }) => pages.map((path): [string, string] => [path, basename(path)]));
  const versions: CandidateVersion[] = [];
  for (const {
    record: { version },
    pages,
    bytes,
  } of fetched) {
    const sha256 = await digestOf(pages);
    versions.push({
      version,
      pages: pages.map((path) => basename(path)),
      bytes,
      sha256: sha256 ?? LOST,
    });
  }
  await staging.keepCandidate(datasetId, new Map(names), parts.choices.keepCandidatesBytes);
  return { kind: 'changes', versions };
}

/**
 * Returns the kept files of a candidate. Null where the step is not that of a candidate, or where its files were evicted or altered: they
 * are fetched again.
 */
export async function keptFiles(
  { candidate }: WorkOf<'load'>,
  staging: Staging,
): Promise<readonly DownloadedFile[] | null> {
  if (candidate === undefined || candidate.content.kind !== 'snapshot') return null;
  const files = candidate.content.files.map(({ keptAs, ...file }) => ({
    ...file,
    path: staging.candidatePath(candidate.datasetId, keptAs),
  }));
  for (const { path, sha256 } of files) if ((await digestOf([path])) !== sha256) return null;
  return files;
}

/** Returns the kept changes of a candidate. Null where the step is not that of a candidate, or where its pages were evicted or altered. */
export async function keptVersions(
  { candidate, versions: records }: WorkOf<'apply'>,
  datasetId: string,
  staging: Staging,
) {
  if (candidate === undefined || candidate.content.kind !== 'changes') return null;
  const fetched: FetchedVersion[] = [];
  for (const { version, pages: names, bytes, sha256 } of candidate.content.versions) {
    const pages = names.map((name) => staging.candidatePath(datasetId, name));
    if ((await digestOf(pages)) !== sha256) return null;
    const record = records.find((one) => one.version === version);
    fetched.push({ record: present(record, 'the step has the versions of the candidate'), pages, bytes });
  }
  return { fetched, inapplicable: new Map<number, string>(), oversized: null, ahead: [] };
}

/** The digest of pages that were lost before they were kept: no file has it. */
const LOST = '';

/** Returns the sha256 of the files in their order, in hex; null where one cannot be read. */
async function digestOf(paths: readonly string[]): Promise<string | null> {
  const hash = createHash('sha256');
  try {
    for (const path of paths) {
      // A named pipe in its place would be waited for.
      if (!(await stat(path)).isFile()) return null;
      for await (const bytes of createReadStream(path)) hash.update(bytes);
    }
    return hash.digest('hex');
  } catch {
    return null;
  }
}
