/** What instances of other data directories may ask the one that works on the database to decide. */

import { z } from 'zod';
import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import { UsageError } from '../model/errors.ts';
import { forgetDecision } from './commands/forget.ts';
import { liftDecision } from './commands/resume.ts';
import { resyncDecision } from './commands/resync.ts';
import type { AskedDecision, Decision } from './decision.ts';

const askedDecision: z.ZodType<AskedDecision> = z.object({ isForeseen: z.boolean(), decision: z.unknown() });

/** By the command of the request. */
export const DECISIONS: ReadonlyMap<string, (parameters: unknown, checkpoint: Checkpoint) => string> =
  new Map([decisionOf(resyncDecision), decisionOf(liftDecision), decisionOf(forgetDecision)]);

function decisionOf<Parameters>(decision: Decision<Parameters>) {
  const perform = (parameters: unknown, checkpoint: Checkpoint): string =>
    performDecision(decision, parameters, checkpoint);
  return [decision.command, perform] as const;
}

/** Returns what the decision would do, as JSON, or what was decided. @throws UsageError where a part of it was not decided. */
function performDecision<Parameters>(
  decision: Decision<Parameters>,
  asked: unknown,
  checkpoint: Checkpoint,
): string {
  const { isForeseen, decision: given } = askedDecision.parse(asked);
  const parameters = decision.parameters.parse(given);
  if (isForeseen) return JSON.stringify(decision.intent(parameters, checkpoint));
  const { lines, refusal = null } = decision.decide(parameters, checkpoint);
  if (refusal === null) return lines.join('\n');
  throw new UsageError([...lines, refusal.message].join(' '), {
    ...(refusal.hint === null ? {} : { hint: refusal.hint }),
  });
}
