/** Executes planned steps. A dry run has an executor of its own (../dry-run.ts); nothing else distinguishes a dry run from a catch-up. */

import pLimit from 'p-limit';
import type { StoredProgress } from '../../destination/destination.ts';
import { present, unreachable } from '../../lib/assert.ts';
import { formatCount } from '../../lib/units.ts';
import { BadChangesError, type DataError } from '../../model/errors.ts';
import type { Counts, Version } from '../../model/records.ts';
import type { Parts } from '../parts.ts';
import { changesContentOf, contentOf } from '../plan/content.ts';
import type { DatasetState } from '../plan/dataset-state.ts';
import { isSatisfied } from '../plan/need.ts';
import type { Metadata } from '../plan/step.ts';
import { publishedAtOf, recordOf } from '../plan/versions.ts';
import type { Extent } from '../progress.ts';
import { VERSIONS_AT_ONCE } from './fetch-changes.ts';
import { openStaging } from './staging-folder.ts';
import type { ForRequests, StepDependencies, StepResult, Tools, Work } from './step-tools.ts';
import { fetchAndApply, loadSnapshot, retire } from './steps.ts';
import { startWriter } from './writer.ts';

/** Large steps that run at once: their staged files fill the disk until they are committed, one after another. */
const LARGE_AT_ONCE = 32;

export interface StepExecutor {
  /**
   * Called before any work: enrolls the datasets, and discards the staged files of all others but for those that are
   * `underWay`.
   */
  open(known: readonly DatasetState[], underWay?: Iterable<string>): Promise<void>;
  execute(work: Work, dependencies: StepDependencies): Promise<StepResult>;
  /** Null in a dry run, which performs no requests. */
  readonly forRequests: ForRequests | null;
  /** Discards the staged files of the dataset, but for those of its candidate. */
  discard(datasetId: string): Promise<void>;
  /** Discards the files of the dataset's candidate. */
  discardCandidate(datasetId: string): Promise<void>;
  /** Resolves once the last write session has ended, which may be after the last result. */
  ended(): Promise<void>;
  /** Stores the progress, where the destination is free. */
  storeProgress(progress: StoredProgress): Promise<void>;
}

/** The function that makes the executor of a session. `onError` is called with an error that occurs after all work has ended. */
export type MakeExecutor = (
  parts: Parts,
  signal: AbortSignal,
  onError: (error: unknown) => void,
) => StepExecutor;

export const liveExecutor: MakeExecutor = (parts, signal, onError) => {
  const staging = openStaging(parts.choices.stagingDirectory);
  const writer = startWriter({ ...parts, onError });
  const large = pLimit(LARGE_AT_ONCE);
  const withLargeFiles = new Set<string>();
  const isLargeUnderWay = () => large.activeCount + large.pendingCount > 0;
  const tools = { parts, staging, writer, fetching: pLimit(VERSIONS_AT_ONCE), signal };
  return {
    async open(known, underWay = []) {
      await staging.keepOnly([...memberIds(known), ...underWay]);
      await enroll(known, parts);
    },
    execute(work, dependencies) {
      const { datasetId } = dependencies.known.desired;
      // Reported only now, because a step that waits for its turn is not running.
      const begin = () => {
        parts.progress.began(datasetId, descriptionOf(work), extentOf(work, dependencies));
        return execute(work, dependencies, tools);
      };
      if (!isLarge(work, dependencies)) return begin();
      if (work.kind === 'load') withLargeFiles.add(datasetId);
      return large(begin);
    },
    forRequests: { commit: async (job) => writer.commit(await parts.destination.validate(job)), tools },
    async discard(datasetId) {
      // Removing large files can keep a disk busy for as long as a load, and a checkpoint that waits for the disk keeps readers
      // out. While other large steps run they need the space at once; the files of the last one can wait.
      if (withLargeFiles.delete(datasetId) && !isLargeUnderWay()) await writer.release();
      await staging.discard(datasetId);
    },
    discardCandidate: (datasetId) => staging.discardCandidate(datasetId),
    ended: () => writer.ended(),
    async storeProgress(progress) {
      await parts.destination.storeProgress(progress, 'if-free');
    },
  };
};

/** A dataset that left needs neither its staged files nor a table name. */
function memberIds(known: readonly DatasetState[]): readonly string[] {
  return known.filter(({ desired }) => desired.members.size > 0).map(({ desired }) => desired.datasetId);
}

/** The checkpoint forgets a subscription only after the destination has. */
async function enroll(
  known: readonly DatasetState[],
  { feed, destination, checkpoint }: Parts,
): Promise<void> {
  const forgottenSubscriptionIds = checkpoint.forgotten();
  await destination.enroll({
    origin: feed.origin,
    subscriptionIds: [...checkpoint.followed().keys()],
    forgottenSubscriptionIds,
    datasetIds: memberIds(known),
  });
  if (forgottenSubscriptionIds.length === 0) return;
  const observedBefore = new Map(known.map(({ desired, observed }) => [desired.datasetId, observed]));
  checkpoint.clearForgotten(forgottenSubscriptionIds, (reload, datasetId) =>
    isSatisfied(reload, observedBefore.get(datasetId) ?? null),
  );
}

/** Executes one step. */
export function execute(work: Work, dependencies: StepDependencies, tools: Tools): Promise<StepResult> {
  switch (work.kind) {
    case 'load':
      return loadSnapshot(work, dependencies, tools);
    case 'apply': {
      const maxSpooledBytes = isLarge(work, dependencies) ? MAX_SPOOLED_BYTES : MAX_SMALL_BYTES;
      return fetchAndApply(work, maxSpooledBytes, dependencies, tools);
    }
    case 'retire':
      return retire(work, dependencies, tools);
    default:
      return unreachable(work);
  }
}

/** For the operator, while the step runs. */
function descriptionOf(work: Work): string {
  switch (work.kind) {
    case 'load':
      return `loading version ${work.listedEntry.entry.version}`;
    case 'apply': {
      const { length } = work.versions;
      return `applying ${formatCount(length)} version${length === 1 ? '' : 's'}`;
    }
    case 'retire':
      return 'retiring';
  }
}

/** Returns the size of a step. The rows of a snapshot come from the version's record, else from the manifest. */
export function extentOf(work: Work, { metadata }: Pick<StepDependencies, 'metadata'>): Extent {
  switch (work.kind) {
    case 'load': {
      const { version, rowCount, files } = work.listedEntry.entry;
      const record = metadata === null ? null : recordOf(version, metadata);
      return { bytes: sumOf(files.map(({ bytes }) => bytes)), rows: record?.rowCount ?? rowCount };
    }
    case 'apply':
      return { bytes: null, rows: sumOf(work.versions.map(({ counts }) => counts && rowsOf(counts))) };
    case 'retire':
      return { bytes: null, rows: null };
  }
}

/**
 * The size limit of a small snapshot, and the spooled bytes of small changes at which no further version is started.
 * All small steps together then stage at most half a gigabyte, plus the versions that were already under way.
 */
export const MAX_SMALL_BYTES = 4_000_000;
/** The most rows that small changes list. Nobody states their bytes; rows of a kilobyte or two stay within the limit above. */
export const MAX_SMALL_ROWS = 2_000;
/** The spooled bytes of large changes at which no further version is started; versions already under way come on top. */
const MAX_SPOOLED_BYTES = 500_000_000;

/** Returns whether the step may stage many bytes until it is committed. An unknown size counts as large. */
export function isLarge(work: Work, dependencies: Pick<StepDependencies, 'metadata'>): boolean {
  const { bytes, rows } = extentOf(work, dependencies);
  switch (work.kind) {
    case 'load':
      return bytes === null || bytes > MAX_SMALL_BYTES;
    case 'apply':
      return rows === null || rows > MAX_SMALL_ROWS;
    case 'retire':
      return false;
  }
}

/** Null where one of the numbers is unknown. */
function sumOf(numbers: readonly (number | null)[]): number | null {
  return numbers.reduce((sum, one) => (sum === null || one === null ? null : sum + one), 0);
}

function rowsOf({ added, changed, removed }: Counts): number {
  return added + changed + removed;
}

/** Returns the identity of the content that failed, which is not fetched again for a day. Null: the error was not of content. */
export function contentAtFault(work: Work, error: DataError, metadata: Metadata | null): string | null {
  switch (work.kind) {
    case 'load': {
      const { entry } = work.listedEntry;
      return contentOf(entry, metadata === null ? null : publishedAtOf(entry.version, metadata));
    }
    case 'apply': {
      const last = present(work.versions.at(-1), 'a path has versions');
      const isBlamed = ({ version }: Version) =>
        error instanceof BadChangesError && version === error.version;
      return changesContentOf(work.versions.find(isBlamed) ?? last);
    }
    case 'retire':
      return null;
  }
}
