/** One file of a snapshot to download: its known facts, and its name on disk. */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { ManifestEntry, ManifestFile } from '../../model/manifest.ts';
import { shown } from '../wire/sanitize.ts';

export interface FileJob {
  readonly datasetId: string;
  readonly version: number;
  /** Its place among the files of the snapshot. */
  readonly position: number;
  readonly file: ManifestFile;
  /**
   * Whether the entry states the digest of every file, so that digests prove which files belong together. Otherwise only
   * entity tags
   * can.
   */
  readonly belongsByDigest: boolean;
  /** The final path. The name follows from the content, so an existing file has the right content. */
  readonly path: string;
  /** The file's name in messages: the last part of its URL's path. */
  readonly name: string;
}

export function fileJobs(entry: ManifestEntry, directory: string): readonly FileJob[] {
  const belongsByDigest = statesDigests(entry);
  return entry.files.map((file, position) => ({
    datasetId: entry.datasetId,
    version: entry.version,
    position,
    file,
    belongsByDigest,
    path: join(directory, `${contentName(entry, file, position)}.parquet`),
    name: nameOf(file.url, position),
  }));
}

export function statesDigests({ files }: ManifestEntry): boolean {
  return files.every(({ sha256 }) => sha256 !== null);
}

/** Returns the object of a sentence: `file part-0.parquet of dataset us-tx-travis-parcels, version 12`. */
export function describeJob({ name, datasetId, version }: FileJob): string {
  return `file ${name} of dataset ${shown(datasetId)}, version ${version}`;
}

/** Without a stated digest, other stated facts identify the content, but never the query, which is signed anew each time. */
function contentName(entry: ManifestEntry, file: ManifestFile, position: number): string {
  if (file.sha256 !== null) return file.sha256;
  const identity = [entry.datasetId, entry.version, position, pathOf(file.url)];
  return createHash('sha256').update(JSON.stringify(identity)).digest('hex');
}

function nameOf(url: string, position: number): string {
  const last = pathOf(url).split('/').at(-1) ?? '';
  return last === '' ? `number ${position + 1}` : shown(last);
}

/** Returns the URL without the query, which is signed anew each time. */
export function pathOf(url: string): string {
  return url.split(/[?#]/, 1)[0] ?? '';
}
