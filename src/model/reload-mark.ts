/** How far a table satisfies the reloads of a subscription. */

/** A reload event of a subscription's log, or a moment that stands for one. Marks of another log are void. */
export interface ReloadMark {
  /** Counts the logs of the subscription: from 1, and one more with each log restart. */
  readonly logNumber: number;
  readonly eventNumber: bigint;
  /** When the event was created, in service time; null where it is not known. */
  readonly createdAt: Date | null;
}

/**
 * Whether `mark` is later than another one of its subscription. Numbers of events are compared within one log. Of two at one
 * number the one of the later moment is later.
 */
export function isLaterMark(mark: ReloadMark, than: ReloadMark): boolean {
  if (mark.logNumber !== than.logNumber) return mark.logNumber > than.logNumber;
  if (mark.eventNumber !== than.eventNumber) return mark.eventNumber > than.eventNumber;
  return than.createdAt !== null && mark.createdAt !== null && mark.createdAt > than.createdAt;
}
