/**
 * Reads the log of a subscription to its head, from a position that is taken anew where there is none or where it is
 * lost. That is done at most once in a catch-up: a log that gives away nothing but expired positions ends in no loop,
 * and one that is quiet is not loaded from its manifest again and again.
 */

import type { Followed } from '../../checkpoint/checkpoint.ts';
import { ServiceUnavailableError } from '../../model/errors.ts';
import type { Subscription } from '../../model/subscription.ts';
import type { FollowStep } from '../../model/want.ts';
import type { Parts } from '../parts.ts';
import type { AtPosition } from './log-restart.ts';
import { EVENTS_KEPT_MS } from './position-age.ts';
import { MAX_PAGES, readLog, type TableOf } from './read-log.ts';

export interface LogOptions {
  readonly subscription: Subscription;
  /** When its record was read, in service time. */
  readonly recordReadAt: Date;
  readonly tableOf: TableOf;
  /** Makes the step that takes the subscription anew. */
  readonly takeAnew: () => Promise<FollowStep>;
}

/**
 * Resolves to what the log has at the position, where it is quiet.
 * @throws ServiceUnavailableError where the log cannot be read to its head now.
 */
export async function followLog(options: LogOptions, parts: Parts, signal: AbortSignal): Promise<AtPosition> {
  const { subscription, recordReadAt, tableOf } = options;
  const { checkpoint, log } = parts;
  const about = { subscription: subscription.id };
  const followed = (): Followed | null => checkpoint.followed().get(subscription.id) ?? null;
  let there: AtPosition = 'unknown';
  const isAtHead = async (): Promise<boolean> => {
    const reading = await readLog(subscription, tableOf, parts, signal);
    const { end } = reading;
    there = reading.there;
    if (end === 'more') throw goesOn(subscription);
    return end === 'head';
  };
  const takeAnew = async (): Promise<void> => checkpoint.commitFollowStep(await options.takeAnew());

  const known = followed();
  const isTaken = known === null || wasQuietTooLong(known, recordReadAt);
  if (isTaken) await takeAnew();
  if (await isAtHead()) return there;
  if (!isTaken) {
    log.warn(about, 'The position in the log has expired: starting from the manifest.');
    await takeAnew();
    if (await isAtHead()) return there;
  }
  log.info(
    about,
    'The newest position has expired, too: the log is read from its start until something newer comes.',
  );
  checkpoint.commitFollowStep(quietStep(subscription, followed(), recordReadAt));
  if (await isAtHead()) return there;
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

/** An event may have come and gone meanwhile. A moment in the future was stored by another time of the service. */
function wasQuietTooLong({ quietReadAt }: Followed, now: Date): boolean {
  return quietReadAt !== null && Math.abs(now.getTime() - quietReadAt.getTime()) >= EVENTS_KEPT_MS;
}

function quietStep({ id, name }: Subscription, followed: Followed | null, readAt: Date): FollowStep {
  const { logNumber = 1, cursor = null, cursorCreatedAt = null, coveredUntil = null } = followed ?? {};
  return {
    subscriptionId: id,
    subscriptionName: name,
    position: { logNumber, cursor, cursorCreatedAt, isQuiet: true, coveredUntil, readAt },
    changes: [],
  };
}
