/** The approval of a candidate: stored, used by the next plan of its dataset, and answered once the content is committed. */

import { z } from 'zod';
import type { OperatorRequest, RequestAnswer } from '../checkpoint/requests.ts';
import { formatCount } from '../lib/units.ts';
import { type Candidate, SHOWN_DIGEST_DIGITS, shownDigest } from '../model/candidate.ts';
import { UsageError } from '../model/errors.ts';
import { approveCommand, effectOf } from './candidates.ts';
import { candidateOf } from './plan/candidate.ts';
import { type AnswerAfter, type Performing, refusalOf } from './requests.ts';
import type { DatasetResult } from './result.ts';

/** Names a candidate as people do: by the beginning of its digest. */
export const approvalParameters = z.object({
  version: z.int(),
  content: z.string().regex(new RegExp(`^[0-9a-f]{${SHOWN_DIGEST_DIGITS},64}$`)),
});

export type ApprovalParameters = z.infer<typeof approvalParameters>;

/** @throws UsageError where other content waits, or none. */
export async function performApproval(
  { datasetId, parameters }: OperatorRequest,
  { parts, known }: Performing,
): Promise<AnswerAfter> {
  const approved = approvalParameters.parse(parameters);
  const candidate = known === null ? null : candidateOf(known);
  if (candidate === null || !isNamed(candidate, approved)) throw notWaiting(datasetId, approved, candidate);
  parts.checkpoint.keepCandidate({ ...candidate, approvedAt: parts.clock.now() });
  return (result) => answerOf(candidate, result, () => waitingNow(datasetId, parts.checkpoint.candidates()));
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
    const rows = `${formatCount(commit.rowCount)} rows`;
    const text = `Committed version ${version} of ${datasetId} (${shownDigest(judged)}): its table ${commit.tableName} has ${rows}.`;
    return { kind: 'done', text };
  }
  if (result.kind === 'failed') return refusalOf(result.error);
  return refusalOf(notWaiting(datasetId, { version, content: shownDigest(judged) }, waiting()));
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
