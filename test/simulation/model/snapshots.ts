/** The snapshot files of a model feed, as far as a manifest and a link describe them. Only the newest of a dataset stay. */

import type { DatasetVersion } from '../../../fixtures/feed/model.ts';
import type { FileSettings } from '../../../fixtures/feed/settings.ts';
import type { ManifestEntry } from '../../../src/model/manifest.ts';
import { textsOf } from './texts.ts';

const BYTES_OF_A_ROW = 100;

interface Written {
  readonly version: DatasetVersion;
  /** Null: the snapshot has no files. */
  readonly fileId: string | null;
}

export class Snapshots {
  readonly #settings: FileSettings;
  /** By dataset id, the oldest first. */
  readonly #written = new Map<string, readonly Written[]>();
  #next = 1;

  constructor(settings: FileSettings) {
    this.#settings = settings;
  }

  /** The entry of a manifest, with links that open until `expiresMs`. */
  entryOf(datasetId: string, version: DatasetVersion, expiresMs: number): ManifestEntry {
    const { fileId } = this.#writtenOf(datasetId, version);
    const { rowCount, schema } = version.content;
    const file = {
      url: linkTo(fileId ?? '', expiresMs),
      bytes: BYTES_OF_A_ROW * (rowCount + 1),
      rowCount,
      sha256: this.#settings.sha256 ? textsOf(version.content).digest : null,
    };
    return {
      datasetId,
      version: version.version,
      schemaVersion: schema.schemaVersion,
      rowCount,
      files: fileId === null ? [] : [file],
    };
  }

  /** What the link opens; null where it opens nothing any more. */
  open(datasetId: string, link: string, nowMs: number): DatasetVersion | null {
    const { fileId, expiresMs } = readLink(link);
    if (expiresMs <= nowMs) return null;
    const found = (this.#written.get(datasetId) ?? []).find((written) => written.fileId === fileId);
    return found?.version ?? null;
  }

  #writtenOf(datasetId: string, version: DatasetVersion): Written {
    const before = this.#written.get(datasetId) ?? [];
    const known = before.find((written) => written.version === version);
    if (known !== undefined) return known;
    const hasFiles = version.content.rowCount > 0 || this.#settings.emptySnapshot === 'one-file';
    const written = { version, fileId: hasFiles ? String(this.#next) : null };
    this.#next += 1;
    this.#written.set(datasetId, [...before, written].slice(-this.#settings.keepSnapshots));
    return written;
  }
}

function linkTo(fileId: string, expiresMs: number): string {
  return `https://files.example/${fileId}?expires=${expiresMs}`;
}

function readLink(link: string): { readonly fileId: string; readonly expiresMs: number } {
  const { pathname, searchParams } = new URL(link);
  return { fileId: pathname.slice(1), expiresMs: Number(searchParams.get('expires')) };
}
