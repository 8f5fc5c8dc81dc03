/**
 * `feed-sync forget`: gives up missing subscriptions, and with them the datasets that only they contain. A subscription
 * that may come back by itself cannot be given up: a mistyped id must not cost a mirror.
 */

import { z } from 'zod';
import type { Checkpoint, CheckpointReader } from '../../checkpoint/checkpoint.ts';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import { printable } from '../../lib/text.ts';
import { plural } from '../../lib/units.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { UsageError } from '../../model/errors.ts';
import { SUBSCRIPTION_MISSING } from '../../sync/follow/subscriptions.ts';
import type { Intent } from '../confirm.ts';
import type { Context } from '../context.ts';
import type { Decision } from '../decision.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { makeDecision } from '../make-decision.ts';
import { formatUnknown, knownNames, listed, statusAndCode } from '../render/messages.ts';

/** Forgets subscriptions. @throws UsageError when no id is given, or one that is not suspended as missing; nothing is forgotten then. */
export async function forget(
  subscriptionIds: readonly string[],
  isYes: boolean,
  configuration: LocalConfiguration,
  context: Context,
): Promise<ExitCode> {
  const ids = [...new Set(subscriptionIds)];
  if (ids.length === 0) {
    throw new UsageError('forget needs to know what: no subscription was named.', {
      hint: 'Give --subscription ID; feed-sync status lists those that are suspended as missing.',
    });
  }
  await makeDecision(forgetDecision, ids, isYes, configuration, context);
  return EXIT_CODES.caughtUp;
}

/** Its parameters are the subscriptions. */
export const forgetDecision: Decision<readonly string[]> = {
  command: 'forget',
  purpose: 'to forget',
  parameters: z.array(z.string()).readonly(),
  intent: (ids, checkpoint) => intentOf(checkpoint, ids),
  decide: (ids, checkpoint) => ({ lines: [giveUp(checkpoint, ids)], isAnyDone: true }),
};

/**
 * Forgets the subscriptions and reports what happens to their datasets. @throws UsageError for one that is not suspended as
 * missing, with its state; nothing is forgotten then.
 */
export function giveUp(checkpoint: Checkpoint, ids: readonly string[]): string {
  for (const id of ids) refuseUnlessMissing(id, checkpoint);
  const members = checkpoint.forget(...ids);
  return formatForgotten(ids, [...new Set(members)].sort(), checkpoint.desiredStates());
}

/** @throws UsageError as `giveUp` does. */
function intentOf(checkpoint: CheckpointReader, ids: readonly string[]): Intent {
  for (const id of ids) refuseUnlessMissing(id, checkpoint);
  const isOfThese = (subscriptionId: string): boolean => ids.includes(subscriptionId);
  const retired = [...checkpoint.desiredStates().values()]
    .filter(({ members }) => members.size > 0 && [...members.keys()].every(isOfThese))
    .map(({ datasetId }) => datasetId)
    .sort();
  const effect =
    retired.length === 0
      ? 'No dataset leaves with it.'
      : `The tables of ${plural(retired.length, 'dataset')} are retired: ${listed(retired)}.`;
  const named = ids.map((id) => `subscription ${printable(id)}`).join(', ');
  return { lines: [`This gives up ${named}. ${effect}`], question: 'Forget?' };
}

/** @throws UsageError with the state of the subscription. */
function refuseUnlessMissing(id: string, checkpoint: CheckpointReader): void {
  const refusal = checkpoint
    .suspensions()
    .map((suspension) => suspension.refusal)
    .find(({ scope }) => scope.kind === 'subscription' && scope.subscriptionId === id);
  if (refusal?.code === SUBSCRIPTION_MISSING && refusal.status === null) return;
  const name = `Subscription ${printable(id)}`;
  const hint =
    'Run feed-sync once: it is suspended as missing once it is gone, or left out of the setting subscriptions.';
  if (refusal !== undefined) {
    const answer = printable(statusAndCode(refusal));
    throw new UsageError(`${name} is not suspended as missing: the service refuses it (${answer}).`, {
      hint,
    });
  }
  const followed = checkpoint.followed();
  if (followed.has(id)) {
    throw new UsageError(`${name} is not missing: it was there at the last catch-up.`, { hint });
  }
  if (checkpoint.forgotten().includes(id)) {
    throw new UsageError(`${name} is forgotten already.`, { hint: 'The next catch-up acts on it.' });
  }
  const unknown = formatUnknown([id], [...followed.keys()]);
  throw new UsageError(`No such subscription is followed here: ${unknown}.`, {
    hint: knownNames([...followed.keys()], 'feed-sync status lists those that are.'),
  });
}

/** `members` are the datasets of the forgotten subscriptions, `desiredStates` the state without them. */
function formatForgotten(
  ids: readonly string[],
  members: readonly string[],
  desiredStates: ReadonlyMap<string, DesiredState>,
): string {
  const isKept = (datasetId: string): boolean => (desiredStates.get(datasetId)?.members.size ?? 0) > 0;
  const [kept, left] = [members.filter(isKept), members.filter((id) => !isKept(id))];
  const lines = [`Forgotten: ${ids.map((id) => `subscription ${printable(id)}`).join(', ')}.`];
  if (members.length === 0) lines.push('It contained no dataset.');
  if (left.length > 0) {
    const why = 'because no other subscription contains them';
    lines.push(`Will be retired at the next catch-up, ${why}: ${listed(left)}.`);
  }
  if (kept.length > 0) lines.push(`Kept, because another subscription contains them: ${listed(kept)}.`);
  return lines.join('\n');
}
