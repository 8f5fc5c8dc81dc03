/**
 * The links of one snapshot's files. They expire; then the manifest is read again, once for all files that wait, and
 * its links are used as long as it may name the same content. Where digests do not tell, entity tags have to: see
 * `one-content.ts`.
 */

import type { ManifestEntry, ManifestFile } from '../../model/manifest.ts';
import { pathOf, statesDigests } from './file-job.ts';

/** The manifest names other content by now, or no longer lists the dataset. Ends the download of the snapshot. */
export class Superseded extends Error {
  readonly entry: ManifestEntry | null;

  constructor(entry: ManifestEntry | null) {
    super('the manifest names other content');
    this.entry = entry;
  }
}

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
   * `expired` is the link to the file at `position` that no longer opens. Does nothing where it was replaced already.
   * @throws Superseded, and what reading the manifest throws
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

  /** For a renewed entry of which nothing says that it has the content of files that were fetched before. */
  supersededByRenewal(): Superseded {
    return new Superseded(this.#entry);
  }

  /** For content that was replaced under its links: reads the manifest again, which may name it by now. */
  async supersededByReplacement(): Promise<Superseded> {
    return new Superseded(await this.#refresh());
  }
}

/**
 * Whether the manifest contradicts that it is the same version in the same files. Files without a digest are known by their
 * place: an entity tag says nothing about a file elsewhere.
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
