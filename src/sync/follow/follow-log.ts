/**
 * Reads the log of a subscription to its head, from a position that is taken anew where there is none or where it is
 * lost. That is done at most once in a catch-up: a log that gives away nothing but expired positions ends in no loop,
 * and one that is quiet is not loaded from its manifest again and again.
 */

import type { Followed } from '../../checkpoint/checkpoint.ts';
import { ServiceUnavailableError } from '../../model/errors.ts';
import type { EventId } from '../../model/event.ts';
import type { Subscription } from '../../model/subscription.ts';
import type { FollowStep } from '../../model/want.ts';
import type { Parts } from '../parts.ts';
import { MAX_PAGES, readLog } from './read-log.ts';

const DAY_MS = 86_400_000;

/**
 * A quiet log that was not read for longer is taken from the manifest again: the service keeps events for 90 days, so
 * one may have come and gone meanwhile. Far less than that, because clocks may be wrong.
 */
const MAX_QUIET_MS = 30 * DAY_MS;

/** Makes the step that takes the subscription anew; `lost` is the position it had, null where it had none. */
export type StartAnew = (lost: EventId | null) => Promise<FollowStep>;

/** @throws ServiceUnavailableError where the log cannot be read to its head now. */
export async function followLog(
  subscription: Subscription,
  startAnew: StartAnew,
  parts: Parts,
  signal: AbortSignal,
): Promise<void> {
  const { checkpoint, clock, log } = parts;
  const about = { subscription: subscription.id };
  const followed = (): Followed | undefined => checkpoint.followed().get(subscription.id);
  const isAtHead = async (): Promise<boolean> => {
    const { end } = await readLog(subscription, parts, signal);
    if (end === 'more') throw goesOn(subscription);
    return end === 'head';
  };
  const takeAnew = async (): Promise<void> =>
    checkpoint.commitFollowStep(await startAnew(followed()?.cursor ?? null));

  const known = followed();
  const isTaken = known === undefined || wasQuietTooLong(known, clock.now());
  if (isTaken) await takeAnew();
  if (await isAtHead()) return;
  if (!isTaken) {
    log.warn(about, 'The position in the log has expired: starting from the manifest.');
    await takeAnew();
    if (await isAtHead()) return;
  }
  log.info(
    about,
    'The newest position has expired, too: the log is read from its start until something newer comes.',
  );
  checkpoint.commitFollowStep(quietStep(subscription, followed()?.cursor ?? null));
  if (await isAtHead()) return;
  throw new ServiceUnavailableError(
    `The log of subscription ${subscription.id} cannot be read on: a position that it has just given has expired already.`,
    { hint: 'It is read again at the next catch-up. If it stays so, tell the service.' },
  );
}

function goesOn({ id }: Subscription): ServiceUnavailableError {
  return new ServiceUnavailableError(`The log of subscription ${id} goes on after ${MAX_PAGES} pages.`, {
    hint: 'What was read is kept; the next catch-up reads on.',
  });
}

/** A moment in the future was written down by a clock that was wrong: nobody knows how long ago it is. */
function wasQuietTooLong({ quietReadAt }: Followed, now: Date): boolean {
  return quietReadAt !== null && Math.abs(now.getTime() - quietReadAt.getTime()) > MAX_QUIET_MS;
}

function quietStep({ id, name }: Subscription, cursor: EventId | null): FollowStep {
  return { subscriptionId: id, subscriptionName: name, cursor, isQuiet: true, changes: [] };
}
