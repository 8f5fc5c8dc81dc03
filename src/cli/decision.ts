/** The decisions of operators about a checkpoint (`resync`, `resume`, `forget`), and the request that asks another instance for it. */

import { z } from 'zod';
import type { Checkpoint, CheckpointReader } from '../checkpoint/checkpoint.ts';
import { UsageError } from '../model/errors.ts';
import type { Intent } from './confirm.ts';

/** The parameters of the request of a decision. */
const askedDecision = z.object({
  /** The request only asks what the decision would do. */
  isSimulated: z.boolean(),
  decision: z.unknown(),
});
export type AskedDecision = z.infer<typeof askedDecision>;

export interface Decided {
  /** The decision in words, for people. */
  readonly lines: readonly string[];
  /** Whether there is something to act on. */
  readonly isAnyDone: boolean;
  /** Why a part of it was not decided. */
  readonly refusal?: UsageError | null;
}

/** A decision, which depends on nothing but the checkpoint and its parameters, which can be written as JSON. */
export interface Decision<Parameters> {
  /** Names the request of it. */
  readonly command: string;
  /** Completes `There is nothing …`: `to resume`. */
  readonly purpose: string;
  readonly parameters: z.ZodType<Parameters>;
  /** Returns what the decision does; null where it does nothing that has to be confirmed. @throws UsageError */
  intent(parameters: Parameters, checkpoint: CheckpointReader): Intent | null;
  /** @throws UsageError; nothing is decided then. */
  decide(parameters: Parameters, checkpoint: Checkpoint): Decided;
}

/**
 * Performs the request of a decision where it takes effect. Returns what it would do, as JSON, or what was decided.
 * @throws UsageError where a part of it was not decided.
 */
export function performDecision<Parameters>(
  decision: Decision<Parameters>,
  asked: unknown,
  checkpoint: Checkpoint,
): string {
  const { isSimulated, decision: given } = askedDecision.parse(asked);
  const parameters = decision.parameters.parse(given);
  if (isSimulated) return JSON.stringify(decision.intent(parameters, checkpoint));
  const { lines, refusal = null } = decision.decide(parameters, checkpoint);
  if (refusal === null) return lines.join('\n');
  throw new UsageError([...lines, refusal.message].join(' '), {
    ...(refusal.hint === null ? {} : { hint: refusal.hint }),
  });
}
