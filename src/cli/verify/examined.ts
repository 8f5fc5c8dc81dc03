/**
 * Reads files for `verify --deep` in other processes, so that damage which makes DuckDB end a process becomes a finding. The mirror
 * or the copy is suspect from then on, so that the next catch-up does not open it before another process has read it.
 */

import { realpath, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Checkpoint } from '../../checkpoint/checkpoint.ts';
import { instanceLockPath, type Suspicion, suspectStores } from '../../checkpoint/instance-lock.ts';
import { openCheckpointBeside } from '../../checkpoint/sqlite/open.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import { catalogDamage, examineFile } from '../../destination/duckdb/damage/examine.ts';
import type { CountedDataset } from '../../destination/reader.ts';
import { FeedSyncError, StorageError } from '../../model/errors.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Context } from '../context.ts';

/** The findings of reading the files. */
export interface ExaminedFiles {
  /** Tables of the mirror that must not be read in this process: why, by their names with schema. */
  readonly endingProcess: ReadonlyMap<string, string>;
  /** Null where no copy is published, or none is there yet. */
  readonly copy: CopyFinding | null;
}

export interface CopyFinding {
  readonly path: string;
  /** The faults of a file, a clause each; empty where the file was read whole and is as it was written. */
  readonly damage: readonly string[];
}

export const NOT_EXAMINED: ExaminedFiles = { endingProcess: new Map(), copy: null };

/** Examines the files of the mirror. @throws StorageError where the mirror as a whole cannot be used by any process. */
export async function examineFiles(configuration: Configuration, context: Context): Promise<ExaminedFiles> {
  const { path: given, publish, postgres } = configuration.destination;
  // A server reads its files in processes of its own.
  if (postgres !== null) return NOT_EXAMINED;
  const path = await realpath(given).catch(() => resolve(given));
  const { tables, unreadable, endsProcess } = await examined(path, configuration, context);
  const ending = tables.filter(({ state }) => state === 'ends-process');
  const copy = publish === null ? null : await examineCopy(publish.path, configuration, context);
  const ofCatalog = catalogDamage(tables);
  const isMirrorSuspect = endsProcess || ending.length > 0 || ofCatalog !== null;
  const isCopySuspect = copy !== null && copy.damage.length > 0;
  if (isMirrorSuspect || isCopySuspect) {
    suspect({ mirror: isMirrorSuspect, copy: isCopySuspect }, configuration, context);
  }
  // The catalog is read by whoever reads another table.
  if (endsProcess || ofCatalog !== null) {
    const why = (unreadable ?? ofCatalog ?? '').replace(/[.!]$/, '');
    throw new StorageError(`The mirror ${given} is damaged: ${why}.`, {
      code: 'mirror_damaged',
      hint: 'Check the disk. feed-sync once quarantines it and builds it again.',
    });
  }
  return { endingProcess: new Map(ending.map(({ name, why }) => [name, why ?? 'damaged'])), copy };
}

/** Has the next catch-up, or the daemon that is running, read the stores in another process before they are opened. */
export function suspect(suspicion: Suspicion, configuration: Configuration, context: Context): void {
  const lock = { path: instanceLockPath(configuration.dataDirectory), uid: context.identity.uid };
  if (!suspectStores(lock, suspicion) && suspicion.mirror) askForExamination(configuration, context);
}

/** The daemon that has the lock opens the stores again. Where this user may not write the checkpoint, the finding says what to do. */
function askForExamination({ checkpoint: { path } }: Configuration, { identity, clock }: Context): void {
  let checkpoint: Checkpoint | null = null;
  try {
    checkpoint = openCheckpointBeside({ path, uid: identity.uid, clock });
    checkpoint?.keepScrub({ ...checkpoint.scrub(), isExaminationAsked: true });
  } catch (error) {
    if (!(error instanceof FeedSyncError)) throw error;
  } finally {
    checkpoint?.close();
  }
}

async function examineCopy(
  given: string,
  configuration: Configuration,
  context: Context,
): Promise<CopyFinding | null> {
  const path = await realpath(given).catch(() => null);
  if (path === null || (await stat(path)).size === 0) return null;
  const { tables, unreadable } = await examined(path, configuration, context);
  const damage = tables.flatMap(({ name, state, why }) =>
    state === 'sound' ? [] : `${name}: ${why ?? ALTERED}`,
  );
  return { path: given, damage: unreadable === null ? damage : [...damage, unreadable] };
}

const ALTERED = 'its rows are not those that were committed';

function examined(path: string, { dataDirectory, duckdb }: Configuration, { signal, random }: Context) {
  const suffix = random.next().toString(36).slice(2);
  return examineFile({
    path,
    memoryLimitBytes: duckdb.memoryLimitBytes,
    temporaryDirectory: join(dataDirectory, `examining-${suffix}`),
    signal,
  });
}

/** Returns the tables of datasets as damaged that must not be read. */
export function damagedDatasets(
  observed: ReadonlyMap<string, ObservedTable>,
  { endingProcess }: ExaminedFiles,
): ReadonlyMap<string, CountedDataset> {
  const damaged = [...observed.values()].flatMap((table): [string, CountedDataset][] => {
    const damage = endingProcess.get(`main.${table.tableName}`);
    return damage === undefined ? [] : [[table.datasetId, { observed: table, table: null, damage }]];
  });
  return new Map(damaged);
}

export function isEnding(counted: CountedDataset | null, { endingProcess }: ExaminedFiles): boolean {
  return counted !== null && endingProcess.has(`main.${counted.observed.tableName}`);
}

export function copyJson({ path, damage }: CopyFinding) {
  return { path, result: damage.length === 0 ? ('equal' as const) : ('damaged' as const), damage };
}
