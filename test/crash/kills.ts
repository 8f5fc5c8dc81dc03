/** Derives the kills of a scenario from the record of an undisturbed run. Pure. */

/** A point of the program at which it can be killed: `before destination.commit`. */
export type KillPoint = string;

/** Counts each point in a record, which has a line for each occurrence. */
export function killPointsIn(record: string): ReadonlyMap<KillPoint, number> {
  const lines = record.split('\n').filter((line) => line !== '');
  return new Map([...Map.groupBy(lines, (line) => line)].map(([point, all]) => [point, all.length]));
}

/** The smaller count of each point in two records of the same run: simultaneous commits may become one. */
export function fewest(
  one: ReadonlyMap<KillPoint, number>,
  other: ReadonlyMap<KillPoint, number>,
): ReadonlyMap<KillPoint, number> {
  return new Map(
    [...one, ...other].map(([point]) => [
      point,
      Math.min(one.get(point) ?? Number.POSITIVE_INFINITY, other.get(point) ?? Number.POSITIVE_INFINITY),
    ]),
  );
}

export function nameOf(point: KillPoint): string {
  return point.replace(/^(?:before|after) /, '');
}

/**
 * The first and the last occurrence of each point whose name is killed, in the form that the process expects: `before
 * destination.commit 2`. There is no point after an effect that fails, such as making a file that is there already.
 */
export function killsOf(
  killPoints: ReadonlyMap<KillPoint, number>,
  isKilledAt: (name: string) => boolean,
): readonly string[] {
  return [...killPoints].flatMap(([point, count]) =>
    isKilledAt(nameOf(point)) ? [...new Set([1, count])].map((occurrence) => `${point} ${occurrence}`) : [],
  );
}
