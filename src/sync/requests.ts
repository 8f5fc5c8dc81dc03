/**
 * Performs what operators request of single datasets. A request is decided and answered by the handler of its command; one
 * whose effect comes with the reconciliation of the dataset is answered after it.
 */

import type { OperatorRequest, RequestAnswer } from '../checkpoint/requests.ts';
import { performApproval } from './approve.ts';
import { type Parts, requestsOf } from './parts.ts';
import { performRenewChecksums, performRepair, performStoreChecksum } from './repair.ts';
import { type AnswerAfter, type Handler, type Performing, refusalOf } from './request-handler.ts';
import { performRollback, performUnpin } from './rollback.ts';

/** By the command that asks. */
const HANDLERS: ReadonlyMap<string, Handler> = new Map<string, Handler>([
  ['approve', performApproval],
  ['rollback', performRollback],
  ['resume', performUnpin],
  ['repair', performRepair],
  ['store-checksum', performStoreChecksum],
  ['renew-checksums', performRenewChecksums],
]);

/** A request that is answered after the reconciliation of its dataset. */
export interface Unanswered {
  readonly requestId: string;
  readonly answerAfter: AnswerAfter;
}

/**
 * Performs the waiting requests of the dataset, the oldest first. `performingNow` is asked before each of them, because the one
 * before may have changed the table. `onUnanswered` takes each request that is answered after the reconciliation of the dataset,
 * as soon as it was performed: an error of the next request must not cost its answer.
 */
export async function performRequests(
  datasetId: string,
  performingNow: () => Performing,
  onUnanswered: (unanswered: Unanswered) => void,
  handlers: ReadonlyMap<string, Handler> = HANDLERS,
): Promise<void> {
  const { parts } = performingNow();
  const requests = requestsOf(parts);
  for (;;) {
    const request = await requests.begin(datasetId, parts.clock.now());
    if (request === null) return;
    const { requestId } = request;
    const outcome = await perform(
      request,
      performingNow(),
      handlers.get(request.command) ?? decider(request, parts),
    ).catch(refusalOf);
    if (typeof outcome === 'function') onUnanswered({ requestId, answerAfter: outcome });
    else await requests.answer(requestId, outcome);
  }
}

/** Undefined where the request is no decision that this program knows. */
function decider({ command }: OperatorRequest, { decisions, checkpoint }: Parts): Handler | undefined {
  const decide = decisions?.get(command);
  if (decide === undefined) return undefined;
  return async ({ parameters }, { shareResyncs }) => {
    const text = decide(parameters, checkpoint);
    // Before the answer, so that another instance that takes over does what the operator was promised.
    await shareResyncs();
    return { kind: 'done', text };
  };
}

async function perform(
  request: OperatorRequest,
  performing: Performing,
  handler: Handler | undefined,
): Promise<RequestAnswer | AnswerAfter> {
  if (handler !== undefined) return await handler(request, performing);
  return {
    kind: 'refused',
    error: 'usage_invalid',
    message: `The program that works here does not know the request "${request.command}".`,
    hint: 'It is another version of feed-sync. Restart it with the version of this command.',
  };
}
