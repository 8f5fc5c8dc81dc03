/**
 * The links of one snapshot's files. They expire; then the manifest is read again, once for all files that wait, and
 * its links are used as long as it names the same content.
 */

import type { ManifestEntry } from '../../model/manifest.ts';

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

  constructor(entry: ManifestEntry, refresh: () => Promise<ManifestEntry | null>) {
    this.#entry = entry;
    this.#refresh = refresh;
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
  }
}

/** The same version in the same files, as far as the manifest tells. */
function isSameContent(left: ManifestEntry, right: ManifestEntry): boolean {
  if (left.version !== right.version || left.files.length !== right.files.length) return false;
  return left.files.every((file, position) => {
    const other = right.files[position];
    return file.sha256 === other?.sha256 && file.bytes === other?.bytes;
  });
}
