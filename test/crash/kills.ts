/** Which kills a scenario has: from what was recorded of it undisturbed. Pure. */

/** A moment of the program: `before destination.commit`. */
export type Moment = string;

/** How often each moment comes in a record, which has a line for each. */
export function momentsIn(record: string): ReadonlyMap<Moment, number> {
  const lines = record.split('\n').filter((line) => line !== '');
  return new Map([...Map.groupBy(lines, (line) => line)].map(([timestamp, all]) => [timestamp, all.length]));
}

/** Of two records of the same: what comes at the least, for commits that come at once become one. */
export function fewest(
  one: ReadonlyMap<Moment, number>,
  other: ReadonlyMap<Moment, number>,
): ReadonlyMap<Moment, number> {
  return new Map(
    [...one, ...other].map(([timestamp]) => [
      timestamp,
      Math.min(
        one.get(timestamp) ?? Number.POSITIVE_INFINITY,
        other.get(timestamp) ?? Number.POSITIVE_INFINITY,
      ),
    ]),
  );
}

export function nameOf(timestamp: Moment): string {
  return timestamp.replace(/^(?:before|after) /, '');
}

/**
 * Each moment of the names that are killed, when it comes first and when it comes last, as the process is told it: `before
 * destination.commit 2`. There is no moment after an effect that fails, such as making a file that is there already.
 */
export function killsOf(
  moments: ReadonlyMap<Moment, number>,
  isKilledAt: (name: string) => boolean,
): readonly string[] {
  return [...moments].flatMap(([timestamp, count]) =>
    isKilledAt(nameOf(timestamp))
      ? [...new Set([1, count])].map((occurrence) => `${timestamp} ${occurrence}`)
      : [],
  );
}
