/** Keeps the files of content that awaits approval, and finds them again once it is let through. */

import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import type { DownloadedFile } from '../../feed/feed.ts';
import { present } from '../../lib/assert.ts';
import type { CandidateContent } from '../../model/candidate.ts';
import type { ListedEntry } from '../plan/step.ts';
import type { Tools, WorkOf } from './executor.ts';
import type { FetchedVersion } from './fetch-changes.ts';
import type { Staging } from './staging-folder.ts';

type SnapshotContent = Extract<CandidateContent, { readonly kind: 'snapshot' }>;

/** The signatures of links are not kept. */
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
  const nameOf = (version: number, path: string): string => `${version}-${basename(path)}`;
  const names = fetched.flatMap(({ record: { version }, pages }) =>
    pages.map((path): [string, string] => [path, nameOf(version, path)]),
  );
  await staging.keepCandidate(datasetId, new Map(names), parts.choices.keepCandidatesBytes);
  const versions = fetched.map(({ record: { version }, pages, bytes }) => ({
    version,
    pages: pages.map((path) => nameOf(version, path)),
    bytes,
  }));
  return { kind: 'changes', versions };
}

/** Null where the step is not that of a candidate, or where its files were evicted. */
export async function keptFiles(
  { candidate }: WorkOf<'load'>,
  staging: Staging,
): Promise<readonly DownloadedFile[] | null> {
  if (candidate === undefined || candidate.content.kind !== 'snapshot') return null;
  const files = candidate.content.files.map(({ keptAs, ...file }) => ({
    ...file,
    path: staging.candidatePath(candidate.datasetId, keptAs),
  }));
  for (const { path, bytes } of files) if ((await sizeOf(path)) !== bytes) return null;
  return files;
}

/** Null where the step is not that of a candidate, or where its pages were evicted. */
export async function keptVersions(
  { candidate, versions: records }: WorkOf<'apply'>,
  datasetId: string,
  staging: Staging,
) {
  if (candidate === undefined || candidate.content.kind !== 'changes') return null;
  const fetched: FetchedVersion[] = [];
  for (const { version, pages: names, bytes } of candidate.content.versions) {
    const pages = names.map((name) => staging.candidatePath(datasetId, name));
    const sizes = await Promise.all(pages.map(sizeOf));
    if (sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0) !== bytes) return null;
    const record = records.find((one) => one.version === version);
    fetched.push({ record: present(record, 'the step has the versions of the candidate'), pages, bytes });
  }
  return { fetched, inapplicable: new Map<number, string>(), oversized: null, ahead: [] };
}

async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch {
    return null;
  }
}
