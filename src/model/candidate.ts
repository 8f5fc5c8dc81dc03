/**
 * Candidates: content that a gate holds back until an operator approves it. A candidate stands as long as its table, its version
 * and its content stay the same; a dataset has one, the oldest that waits.
 */

import type { ReloadMark } from './desired-state.ts';
import type { JudgedCommit, KeyTexts, RowCounts } from './gate.ts';
import type { ListedEntry } from './manifest.ts';
import type { ObservedTable } from './write-jobs.ts';

export interface Candidate {
  readonly datasetId: string;
  /** Identifies the state of the table that the content was compared with, as `baseOf` returns it. */
  readonly base: string;
  readonly version: number;
  readonly judged: JudgedCommit;
  readonly since: Date;
  /** When an operator approved it; null: it waits. */
  readonly approvedAt: Date | null;
  /** Identifies the content by what the service states about it. */
  readonly identity: string;
  readonly content: CandidateContent;
  /** Content that need not be fetched again while the candidate stands, by what the service states about it. */
  readonly alike: readonly string[];
  /** Content of later versions that waits, too, the newest last. */
  readonly later: readonly LaterContent[];
}

export type CandidateContent =
  | {
      readonly kind: 'snapshot';
      /** The links of its files have no query: that contains a signature. */
      readonly listed: ListedEntry;
      /** The reloads that the content satisfies. */
      readonly reloads: ReadonlyMap<string, ReloadMark>;
      /** Whether the service said that all files are of one content, and where they are kept. */
      readonly files: readonly CandidateFile[];
    }
  | { readonly kind: 'changes'; readonly versions: readonly CandidateVersion[] };

export interface CandidateFile {
  /** The file's name among those of the candidate. */
  readonly keptAs: string;
  readonly name: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly rowCount: number | null;
}

export interface CandidateVersion {
  readonly version: number;
  /** The names of the pages among the files of the candidate. */
  readonly pages: readonly string[];
  readonly bytes: number;
  /** The digest of all pages together, in their order. */
  readonly sha256: string;
}

export interface LaterContent {
  readonly version: number;
  readonly counts: RowCounts;
  readonly digest: string;
  readonly alike: readonly string[];
}

/** The most later contents that are remembered; the oldest are fetched again if the service still offers them. */
export const MAX_LATER_CONTENTS = 10;

/** The number of hex digits of a digest that people see and write. */
export const SHOWN_DIGEST_DIGITS = 8;

export function shownDigest({ digest }: Pick<JudgedCommit, 'digest'>): string {
  return digest.slice(0, SHOWN_DIGEST_DIGITS);
}

/** Returns a text that identifies the state of a table: no commit was made to it since, whatever that did. */
export function baseOf({ commitNumber, version, snapshotDigest, appliedAt }: ObservedTable): string {
  return JSON.stringify([commitNumber, version, snapshotDigest, appliedAt.toISOString()]);
}

/** Returns the columns of a key as text: `12`, `12, east`. */
export function keyText(key: KeyTexts): string {
  return key.join(', ');
}
