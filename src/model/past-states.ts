/** Names of earlier states of a table, and the commits that they stand for. Pure. */

import type { CommitKind } from './commits.ts';
import { UsageError } from './errors.ts';

/** The name that an operator gives a state: a version, a commit or a time. */
export type PastState =
  /** The newest commit that reached the version. */
  | { readonly by: 'version'; readonly version: number }
  /** The newest commit of the table up to this number, which may be that of another table. */
  | { readonly by: 'commit'; readonly commitNumber: number }
  /** The newest commit up to this time. */
  | { readonly by: 'time'; readonly time: Date };

/** A commit of a table, by which it left a state. */
export interface PastCommit {
  readonly commitNumber: number;
  readonly kind: CommitKind;
  /** Null when there was no table before. */
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly appliedAt: Date;
  /** The commit whose state a rollback restored; null for other commits. */
  readonly restoredCommit: number | null;
}

/** Refuses a state that is the current one. @throws UsageError where the table has the state that the commit left. */
export function refuseUnchanged(datasetId: string, { commitNumber }: PastCommit, newest: PastCommit): void {
  if (commitNumber !== newest.commitNumber && commitNumber !== newest.restoredCommit) return;
  throw new UsageError(`${datasetId} is as commit ${commitNumber} left it: there is nothing to roll back.`);
}

/**
 * Returns the commit that left the state. `commits` are all those of the dataset, oldest first.
 * @throws UsageError where no commit left such a state, or where the table was retired then.
 */
export function commitThatLeft(
  datasetId: string,
  state: PastState,
  commits: readonly PastCommit[],
): PastCommit {
  const found = commits.findLast((commit) => isOf(commit, state));
  if (found === undefined) {
    throw state.by === 'version'
      ? unknownVersion(datasetId, state.version, commits)
      : tooEarly(datasetId, commits);
  }
  if (found.kind !== 'retire') return found;
  throw new UsageError(
    `${datasetId} had no table then: commit ${found.commitNumber} at ${found.appliedAt.toISOString()} retired it.`,
    { hint: 'Name a state from before, or from after its return.' },
  );
}

function isOf({ commitNumber, kind, toVersion, appliedAt }: PastCommit, state: PastState): boolean {
  switch (state.by) {
    case 'version':
      return kind !== 'retire' && toVersion === state.version;
    case 'commit':
      return commitNumber <= state.commitNumber;
    case 'time':
      return appliedAt <= state.time;
  }
}

function tooEarly(datasetId: string, commits: readonly PastCommit[]): UsageError {
  const [first] = commits;
  if (first === undefined)
    return new UsageError(`The mirror has no table of ${datasetId}, and never had one.`, {
      hint: 'feed-sync status lists the datasets.',
    });
  const { commitNumber, appliedAt } = first;
  return new UsageError(
    `${datasetId} had no table then: it was loaded by commit ${commitNumber} at ${appliedAt.toISOString()}.`,
    { hint: 'Name that state or a later one.' },
  );
}

function unknownVersion(datasetId: string, version: number, commits: readonly PastCommit[]): UsageError {
  const over = commits.findLast(({ fromVersion, toVersion }) => {
    return fromVersion !== null && fromVersion < version && version < toVersion;
  });
  const newest = commits.at(-1);
  if (newest === undefined) return tooEarly(datasetId, commits);
  if (over === undefined) {
    return new UsageError(`The table of ${datasetId} never had version ${version}.`, {
      hint: `Its newest commit is ${named(newest)}; feed_sync.commits lists all of them.`,
    });
  }
  const before = commits.findLast(({ commitNumber }) => commitNumber < over.commitNumber);
  return new UsageError(
    `The table of ${datasetId} never had version ${version} by itself: ` +
      `one commit brought it from version ${over.fromVersion} to ${over.toVersion}.`,
    { hint: `On either side are ${before === undefined ? '' : `${named(before)} and `}${named(over)}.` },
  );
}

/** `commit 12 (version 4)` */
function named({ commitNumber, toVersion }: PastCommit): string {
  return `commit ${commitNumber} (version ${toVersion})`;
}
