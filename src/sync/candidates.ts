/** Stores candidates, and words them for operators: what a commit would do, and how to let it through. */

import type { Suspension } from '../checkpoint/checkpoint.ts';
import { present } from '../lib/assert.ts';
import { shellWord } from '../lib/text.ts';
import { formatCount } from '../lib/units.ts';
import {
  baseOf,
  type Candidate,
  type CandidateContent,
  keyText,
  type LaterContent,
  MAX_LATER_CONTENTS,
  shownDigest,
} from '../model/candidate.ts';
import type { CommitResult } from '../model/commits.ts';
import { isRekeyed, type JudgedCommit, type RowCounts, type ShownKeys } from '../model/gate.ts';
import type { Parts } from './parts.ts';
import { candidateOf, isVoidedByReload, whyOver } from './plan/candidate.ts';
import type { DatasetState } from './plan/dataset-state.ts';

/** The code of the suspension of a dataset whose candidate waits. */
const AWAITING_APPROVAL = 'awaiting_approval';

/** Returns the suspension that a candidate stands for. */
export function suspensionOfCandidate(candidate: Candidate): Suspension {
  const { datasetId, since } = candidate;
  return {
    refusal: {
      scope: { kind: 'dataset', datasetId },
      operation: 'commit',
      status: null,
      code: AWAITING_APPROVAL,
      message: effectOf(candidate),
      links: new Map(),
    },
    suspendedAt: since,
    keyHash: '',
    candidate,
  };
}

/** A step that commits exactly a candidate names it. */
interface CandidateWork {
  readonly candidate?: Candidate;
}

/** Returns the candidate that stays when other content of the dataset waits, too. Null: that content takes its place. */
export function standingCandidate(known: DatasetState, work: CandidateWork): Candidate | null {
  const candidate = candidateOf(known);
  if (candidate === null || work.candidate !== undefined || whyOver(candidate, known) !== null) return null;
  return isVoidedByReload(candidate, known) ? null : candidate;
}

interface AwaitingContent {
  readonly known: DatasetState;
  readonly version: number;
  readonly judged: JudgedCommit;
  /** Identifies the content by what the service states about it; the first is its own. */
  readonly identities: readonly string[];
  /** The content to keep as the candidate; null: it waits beside the candidate that stands. */
  readonly content: CandidateContent | null;
}

type Stores = Pick<Parts, 'destination' | 'checkpoint'>;

/** Stores a candidate: in the destination first, so that every instance knows a candidate before an operator is notified of it. */
export async function keepCandidate(
  candidate: Candidate,
  { destination, checkpoint }: Stores,
): Promise<void> {
  await destination.candidates?.keep(candidate);
  checkpoint.keepCandidate(candidate);
}

/** Takes over the candidates that another instance may have left in the destination, in place of those of the checkpoint. */
export async function adoptCandidates({ destination, checkpoint }: Stores): Promise<void> {
  const stored = await destination.candidates?.all();
  if (stored === undefined) return;
  const datasetIds = new Set(stored.map(({ datasetId }) => datasetId));
  for (const { datasetId } of checkpoint.candidates()) {
    if (!datasetIds.has(datasetId)) checkpoint.removeCandidate(datasetId);
  }
  for (const candidate of stored) checkpoint.keepCandidate(candidate);
}

/** Stores content that waits: as the candidate of its dataset, or beside the one that stands. */
export async function noteAwaiting(awaiting: AwaitingContent, parts: Parts): Promise<Candidate> {
  const { known, version, judged, identities, content } = awaiting;
  const { datasetId } = known.desired;
  if (content === null) {
    const current = present(candidateOf(known), 'content waits beside a candidate');
    const other = { version, counts: judged.counts, digest: judged.digest, alike: identities };
    const later = [...current.later.filter((one) => one.version !== version), other];
    const candidate = { ...current, later: later.slice(-MAX_LATER_CONTENTS) };
    await keepCandidate(candidate, parts);
    return candidate;
  }
  const observed = present(known.observed, 'only a table that is there is judged');
  const [identity = ''] = identities;
  const candidate: Candidate = {
    datasetId,
    base: baseOf(observed),
    version,
    judged,
    since: parts.clock.now(),
    approvedAt: null,
    identity,
    content,
    alike: identities,
    later: replacedBy(judged, candidateOf(known), baseOf(observed)).slice(-MAX_LATER_CONTENTS),
  };
  await keepCandidate(candidate, parts);
  parts.log.warn(fieldsOf(candidate), 'A commit waits for approval. See feed-sync status.');
  return candidate;
}

/**
 * Returns what waited when other content took the place of the candidate. Where two manifests each satisfy a reload that the other
 * does not, their contents would otherwise be fetched in turns for ever.
 */
function replacedBy(
  { digest }: JudgedCommit,
  before: Candidate | null,
  base: string,
): readonly LaterContent[] {
  if (before === null || before.base !== base) return [];
  const { version, judged, alike, later } = before;
  const replaced = { version, counts: judged.counts, digest: judged.digest, alike };
  return [...later, replaced].filter((one) => one.digest !== digest);
}

/** Ends a candidate that stands no longer, as after a repair or a rollback: its content is judged again. Returns whether it ended. */
export async function endIfOver(known: DatasetState, parts: Parts): Promise<boolean> {
  const candidate = candidateOf(known);
  const why = candidate === null ? null : whyOver(candidate, known);
  if (candidate === null || why === null) return false;
  await endCandidate(candidate, why, parts);
  return true;
}

/** Ends a candidate without a commit of its dataset. `why` is a clause. */
export async function endCandidate(candidate: Candidate, why: string, parts: Parts): Promise<void> {
  await parts.destination.candidates?.remove(candidate.datasetId);
  noteEnded(candidate, why, parts);
}

/** Notes that a candidate ended. The destination removed it with the commit that ended it. `why` is a clause. */
export function noteEnded(candidate: Candidate, why: string, { checkpoint, log }: Parts): void {
  const { datasetId, version, judged } = candidate;
  checkpoint.removeCandidate(datasetId);
  log.info({ dataset: datasetId, version, content: shownDigest(judged), why }, 'A commit waits no longer.');
}

function fieldsOf(candidate: Candidate) {
  const { datasetId, version, judged } = candidate;
  const { before, after, added, changed, removed } = judged.counts;
  return {
    dataset: datasetId,
    version,
    content: shownDigest(judged),
    rowsBefore: before,
    rows: after,
    added,
    ...(changed === null ? {} : { changed }),
    removed,
    keysAdded: judged.keys.added.map(keyText),
    keysChanged: judged.keys.changed.map(keyText),
    keysRemoved: judged.keys.removed.map(keyText),
    hint: approveCommand(candidate),
  };
}

export function keysAsTexts({ added, changed, removed }: ShownKeys) {
  return { added: added.map(keyText), changed: changed.map(keyText), removed: removed.map(keyText) };
}

/** Returns the one command that lets exactly this candidate through. */
export function approveCommand({ datasetId, version, judged }: Candidate): string {
  return `feed-sync approve ${shellWord(datasetId)} --version ${version} --content ${shownDigest(judged)}`;
}

/** Returns a clause: `version 12 would remove 600 of 1,000 rows, change 3 and add none`. */
export function effectOf({ version, judged: { counts } }: Pick<Candidate, 'version' | 'judged'>): string {
  return `version ${version} would ${formatEffect(counts)}`;
}

function formatEffect(counts: RowCounts): string {
  const { before, after, added, changed, removed, isByKey } = counts;
  const rows = `${formatCount(before)} row${before === 1 ? '' : 's'}`;
  if (isRekeyed(counts)) return `replace every key: none of ${rows} keeps its key (re-keyed)`;
  if (!isByKey) return `leave ${formatCount(after)} of ${rows}; which ones cannot be compared`;
  const ofChanged = changed === null ? '' : `, change ${countOrNone(changed)}`;
  return `remove ${countOrNone(removed)} of ${rows}${ofChanged} and add ${countOrNone(added)}`;
}

function countOrNone(count: number): string {
  return count === 0 ? 'none' : formatCount(count);
}

/** Returns lines about a candidate: some keys of each kind, and what waits beside it. */
export function detailsOf({ judged, later }: Candidate): readonly string[] {
  const keys = keysAsTexts(judged.keys);
  const { added, changed, removed } = judged.counts;
  return [
    ...keysLine('Removed', keys.removed, removed),
    ...keysLine('Changed', keys.changed, changed ?? 0),
    ...keysLine('Added', keys.added, added),
    ...later.map(
      ({ version, counts }) => `Version ${version} waits behind it: it would ${formatEffect(counts)}.`,
    ),
  ];
}

function keysLine(word: string, keys: readonly string[], count: number): readonly string[] {
  if (keys.length === 0) return [];
  const rest = count - keys.length;
  return [`${word} keys: ${keys.join(' · ')}${rest > 0 ? ` and ${formatCount(rest)} more` : ''}`];
}

/** Returns why a candidate is over once this was committed: a clause. */
export function whyEnded({ version, approvedAt, judged }: Candidate, { toVersion }: CommitResult): string {
  if (toVersion !== version) return `version ${toVersion} was committed`;
  return approvedAt === null ? 'it passes the gate now' : `${shownDigest(judged)} was approved and committed`;
}
