/**
 * Writes the export: each dataset that was committed since the last one as a new GeoParquet file, then a manifest that names the
 * files of the generation.
 *
 * Invariants: a file that a kept generation names is never changed. `manifest.json` is replaced at once, after all its files are on
 * the disk; what no kept generation names is removed after that. The manifest is the only bookmark, so an export that was killed or
 * has failed is done again from the generation that readers have.
 */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { ExportSource } from '../../destination/publication.ts';
import type { Clock } from '../../lib/clock.ts';
import { remove, renameFile, replaceFile, settleFile } from '../../lib/files.ts';
import { spaceShortage } from '../../lib/free-space.ts';
import { InterruptedError, StorageError } from '../../model/errors.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import {
  bytesOf,
  inFolder,
  makeFolderOf,
  modesIn,
  newestGeneration,
  readManifestText,
  removeOthers,
} from './folder.ts';
import {
  type ExportedFile,
  fileOf,
  holds,
  keptGeneration,
  keptName,
  MANIFEST,
  type Manifest,
  manifestText,
  parseManifest,
  placeOf,
} from './generation.ts';

/** The file that is being written: one at a time. The next export removes what a killed process left. */
const UNFINISHED = '.writing.parquet';

export interface ExporterParts {
  readonly source: ExportSource;
  /** With links resolved. */
  readonly folder: string;
  /** Where the mirror is, as its manifests name it: no other mirror may export to the folder. */
  readonly mirror: string;
  /** True for a dataset that has lost its table with the mirror and gets it again: it keeps its file until then. */
  readonly isAwaited: (datasetId: string) => boolean;
  /** Makes sure that no other instance exports to the folder. @throws BusyError, StorageError */
  readonly lock: () => Promise<void>;
  /** How many generations are kept, the newest among them. */
  readonly keep: number;
  /** Bytes that must stay free on the disk. */
  readonly reserveBytes: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A generation that readers have now. */
export interface Exported {
  readonly generation: number;
  /** How many files of it were written anew. */
  readonly written: number;
  readonly files: number;
  /** The size of the files that were written. */
  readonly bytes: number;
}

interface Written {
  readonly written: readonly ExportedFile[];
  /** The datasets whose tables cannot be read. */
  readonly damaged: ReadonlySet<string>;
  /** The error of the first of them. */
  readonly damage: StorageError | null;
}

export class Exporter {
  readonly #parts: ExporterParts;
  /** True when the folder has no file of an export that was killed or has failed. */
  #isTidy = false;

  constructor(parts: ExporterParts) {
    this.#parts = parts;
  }

  /**
   * Writes a generation, one at a time; null where the newest one holds everything that is committed. A damaged table keeps the file
   * that it has, and holds up no other.
   * @throws StorageError `mirror_damaged`, once the generation is written; `export_failed`; ConfigurationError where the manifest is
   * of another program or of another mirror; InterruptedError; the errors of `ExportSource` and of the lock.
   */
  export(): Promise<Exported | null> {
    const { folder, lock } = this.#parts;
    return inFolder(folder, async () => {
      await lock();
      try {
        return await this.#export();
      } finally {
        await remove('post-commit.clear-export', join(folder, UNFINISHED)).catch(() => {});
      }
    });
  }

  async #export(): Promise<Exported | null> {
    const { source, folder, mirror } = this.#parts;
    const { text, current } = await newestGeneration(folder, mirror);
    const tables = await source.liveTables();
    const kept = await this.#filesThatStay(current, tables);
    const outdated = tables.filter(({ datasetId }) => !kept.has(datasetId));
    const isCurrent = outdated.length === 0 && kept.size === current.files.length;
    if (isCurrent && (text !== null || tables.length === 0)) {
      // A process that was killed may have left what it would have removed.
      if (text !== null) await this.#removeOld(current);
      return null;
    }
    const { written, damaged, damage } = await this.#writeAll(outdated, current);
    const before = await this.#whole(current.files.filter(({ dataset }) => damaged.has(dataset)));
    const files = [...kept.values(), ...before, ...written].toSorted((a, b) =>
      a.dataset < b.dataset ? -1 : 1,
    );
    const isOther = written.length > 0 || files.length !== current.files.length;
    if (isOther || damage === null) await this.#switch(current, text, files);
    if (damage !== null) throw damage;
    return {
      generation: current.generation + 1,
      written: written.length,
      files: files.length,
      bytes: written.reduce((sum, { bytes }) => sum + bytes, 0),
    };
  }

  async #filesThatStay(
    { files }: Manifest,
    tables: readonly ObservedTable[],
  ): Promise<ReadonlyMap<string, ExportedFile>> {
    const { isAwaited } = this.#parts;
    const byDataset = new Map(tables.map((table) => [table.datasetId, table]));
    const staying = files.filter((file) => {
      const table = byDataset.get(file.dataset);
      return table === undefined ? isAwaited(file.dataset) : holds(file, table);
    });
    return new Map((await this.#whole(staying)).map((file) => [file.dataset, file]));
  }

  /** Returns those that are on the disk as they were written. */
  async #whole(files: readonly ExportedFile[]): Promise<readonly ExportedFile[]> {
    const whole: ExportedFile[] = [];
    for (const file of files) {
      if ((await bytesOf(join(this.#parts.folder, file.file))) === file.bytes) whole.push(file);
    }
    return whole;
  }

  async #writeAll(tables: readonly ObservedTable[], current: Manifest): Promise<Written> {
    const { folder, signal } = this.#parts;
    const taken = new Set((await this.#keptManifests(current)).flatMap(namedFiles));
    // A disk that is full would stay so, because each attempt may write files of other names.
    if (!this.#isTidy) await removeOthers(folder, taken);
    this.#isTidy = false;
    const bytesBefore = new Map(current.files.map(({ dataset, bytes }) => [dataset, bytes]));
    const written: ExportedFile[] = [];
    const damaged = new Set<string>();
    let damage: StorageError | null = null;
    for (const { datasetId } of tables) {
      if (signal.aborted) throw new InterruptedError('The export was interrupted.', { cause: signal.reason });
      await this.#requireSpace(bytesBefore.get(datasetId) ?? 0);
      try {
        const file = await this.#write(datasetId, taken);
        if (file !== null) written.push(file);
      } catch (error) {
        if (!(error instanceof StorageError) || error.code !== 'mirror_damaged') throw error;
        damaged.add(datasetId);
        damage ??= error;
      }
    }
    return { written, damaged, damage };
  }

  async #write(datasetId: string, taken: ReadonlySet<string>): Promise<ExportedFile | null> {
    const { source, folder } = this.#parts;
    const unfinished = join(folder, UNFINISHED);
    await remove('post-commit.clear-exported', unfinished);
    const table = await source.writeTable(datasetId, unfinished);
    if (table === null) return null;
    const modes = await modesIn(folder);
    await settleFile('post-commit.settle-exported', unfinished, modes.file);
    const bytes = (await bytesOf(unfinished)) ?? 0;
    const file = placeOf(table, (name) => taken.has(name));
    await makeFolderOf(folder, file, modes.folder);
    await renameFile('post-commit.place-exported', unfinished, join(folder, file));
    return fileOf(table, file, bytes);
  }

  async #requireSpace(bytes: number): Promise<void> {
    const { folder, reserveBytes } = this.#parts;
    const shortage = await spaceShortage(folder, bytes, reserveBytes, 'a file of the export needs');
    if (shortage === null) return;
    throw new StorageError(shortage, {
      code: 'export_failed',
      hint: 'Free some space, or set export.path to a larger disk. The last generation of the export stays.',
    });
  }

  /** The generation that readers have gets its own name first, then the new one takes its place, then old files go. */
  async #switch(current: Manifest, text: string | null, files: readonly ExportedFile[]): Promise<void> {
    const { folder, clock, mirror } = this.#parts;
    const mode = (await modesIn(folder)).file;
    if (text !== null) {
      await replaceFile('post-commit.keep-manifest', join(folder, keptName(current.generation)), text, mode);
    }
    const next: Manifest = {
      ...current,
      generation: current.generation + 1,
      writtenAt: clock.now().toISOString(),
      mirror,
      files: [...files],
    };
    await replaceFile('post-commit.switch-manifest', join(folder, MANIFEST), manifestText(next), mode);
    await this.#removeOld(next);
  }

  async #removeOld(newest: Manifest): Promise<void> {
    const { folder, keep } = this.#parts;
    const oldest = newest.generation - keep + 1;
    for (const name of await readdir(folder)) {
      const generation = keptGeneration(name);
      if (generation !== null && (generation < oldest || generation >= newest.generation))
        await remove('post-commit.remove-manifest', join(folder, name));
    }
    await removeOthers(folder, new Set((await this.#keptManifests(newest)).flatMap(namedFiles)));
    this.#isTidy = true;
  }

  /** The manifest and those beside it. */
  async #keptManifests(newest: Manifest): Promise<readonly Manifest[]> {
    const { folder } = this.#parts;
    const kept = [newest];
    for (const name of await readdir(folder)) {
      if (keptGeneration(name) === null) continue;
      const manifest = parseManifest((await readManifestText(join(folder, name))) ?? '');
      if (manifest !== null) kept.push(manifest);
    }
    return kept;
  }
}

function namedFiles({ files }: Manifest): readonly string[] {
  return files.map(({ file }) => file);
}
