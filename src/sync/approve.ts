/** The approval of a candidate: stored, used by the next plan of its dataset, and answered once the content is committed. */

import { z } from 'zod';
import type { OperatorRequest, RequestAnswer } from '../checkpoint/requests.ts';
import { plural } from '../lib/units.ts';
import { type Candidate, SHOWN_DIGEST_DIGITS, shownDigest } from '../model/candidate.ts';
import type { ErrorCode } from '../model/error-codes.ts';
import { errorCodeOf, UsageError } from '../model/errors.ts';
import { approveCommand, effectOf, keepCandidate } from './candidates.ts';
import { candidateOf } from './plan/candidate.ts';
import { type AnswerAfter, type Performing, refusalOf } from './request-handler.ts';
import type { DatasetEnding, DatasetResult } from './result.ts';
import { currentSuspensions } from './suspensions.ts';

/** The parameters of an approval, which name a candidate as people do: by the beginning of its digest. */
export const approvalParameters = z.object({
  version: z.int(),
  content: z.string().regex(new RegExp(`^[0-9a-f]{${SHOWN_DIGEST_DIGITS},64}$`)),
});

export type ApprovalParameters = z.infer<typeof approvalParameters>;

/**
 * Approves a candidate. A refusal of the workspace is the answer, because nothing is reconciled then. @throws UsageError where other
 * content waits, or none.
 */
export async function performApproval(
  { datasetId, parameters, isCommitted = false }: OperatorRequest,
  { parts, known }: Performing,
): Promise<RequestAnswer | AnswerAfter> {
  const approved = approvalParameters.parse(parameters);
  if (isCommitted) return committedBefore(datasetId, approved);
  const candidate = known === null ? null : candidateOf(known);
  if (candidate === null || !isNamed(candidate, approved)) throw notWaiting(datasetId, approved, candidate);
  await keepCandidate({ ...candidate, approvedAt: parts.clock.now() }, parts);
  const { workspace } = currentSuspensions(parts);
  if (workspace !== null) return stored(candidate, whyWaiting({ kind: 'suspended', suspension: workspace }));
  return (result) => answerOf(candidate, result, () => waitingNow(datasetId, parts.checkpoint.candidates()));
}

/** The instance that committed it ended before it answered. The table may be another by now. */
function committedBefore(datasetId: string, { version, content }: ApprovalParameters): RequestAnswer {
  const shown = content.slice(0, SHOWN_DIGEST_DIGITS);
  return { kind: 'done', text: `Committed version ${version} of ${datasetId} (${shown}).` };
}

export function isNamed({ version, judged }: Candidate, named: ApprovalParameters): boolean {
  return version === named.version && judged.digest.startsWith(named.content);
}

function waitingNow(datasetId: string, candidates: readonly Candidate[]): Candidate | null {
  return candidates.find((one) => one.datasetId === datasetId) ?? null;
}

/** The approved content is the first that is committed: newer versions are judged after it. */
function answerOf(
  candidate: Candidate,
  result: DatasetResult,
  waiting: () => Candidate | null,
): RequestAnswer {
  const { datasetId, version, judged } = candidate;
  const [commit] = result.commits;
  if (commit?.toVersion === version) {
    const rows = plural(commit.rowCount, 'row');
    const text = `Committed version ${version} of ${datasetId} (${shownDigest(judged)}): its table ${commit.tableName} has ${rows}.`;
    return { kind: 'done', text };
  }
  const left = waiting();
  if (left !== null && left.approvedAt !== null && isNamed(left, { version, content: judged.digest })) {
    return stored(candidate, whyWaiting(result));
  }
  if (result.kind === 'failed') return refusalOf(result.error);
  return refusalOf(notWaiting(datasetId, { version, content: shownDigest(judged) }, left));
}

/** Why the approved content is not committed yet. */
interface WhyWaiting {
  readonly error: ErrorCode;
  /** A sentence. */
  readonly why: string;
}

function whyWaiting(result: DatasetEnding): WhyWaiting {
  switch (result.kind) {
    case 'failed':
      return { error: errorCodeOf(result.error), why: result.error.message };
    case 'suspended':
      return { error: 'refused', why: result.suspension.refusal.message };
    case 'waiting':
      return { error: 'interrupted', why: `It waits: ${result.why}.` };
    default:
      return { error: 'interrupted', why: 'It waits for the next catch-up.' };
  }
}

/** The approval is used by the next catch-up that can commit the content. */
function stored({ datasetId, version, judged }: Candidate, { error, why }: WhyWaiting): RequestAnswer {
  const approved = `Version ${version} of ${datasetId} (${shownDigest(judged)}) is approved, and not committed yet.`;
  const hint =
    'The approval is stored: the next catch-up that can commit it does. feed-sync status shows it.';
  return { kind: 'refused', error, message: `${approved} ${why}`, hint };
}

/** Names what waits instead. */
function notWaiting(
  datasetId: string,
  { version, content }: ApprovalParameters,
  waiting: Candidate | null,
): UsageError {
  const named = `Version ${version} of ${datasetId} with the content ${content} does not wait for approval.`;
  if (waiting === null) {
    return new UsageError(`${named} Nothing of it waits.`, { hint: 'feed-sync approve lists what waits.' });
  }
  return new UsageError(`${named} What waits is ${shownDigest(waiting.judged)}: ${effectOf(waiting)}.`, {
    hint: `Where that is right: ${approveCommand(waiting)}`,
  });
}
