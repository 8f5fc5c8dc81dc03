/**
 * A scrub reads every block of a file now and then, because a disk also damages blocks that nobody reads. It reads a slice at a time, and
 * goes on where it has stopped, also after a restart. Pure.
 */

/** A position in the mirror; everything before was read: the tables with smaller names, and the rows of this one in earlier places. */
export interface ScrubPosition {
  /** With its schema. */
  readonly table: string;
  readonly row: number;
}

export interface ScrubbedSlice {
  /** Where the next slice goes on; null: at the beginning. */
  readonly position: ScrubPosition | null;
  /** Every block has been read. */
  readonly isAtEnd: boolean;
  /** Null where everything could be read. */
  readonly damage: ScrubDamage | null;
}

export interface ScrubDamage {
  /** With its schema; null: the file as a whole. */
  readonly tableName: string | null;
  /** Reading it ends the process. */
  readonly endsProcess: boolean;
  /** A clause. */
  readonly why: string;
}

/** How far the mirror has been scrubbed. */
export interface ScrubRecord {
  /** When the last scrub began; null: none has. */
  readonly beganAt: Date | null;
  /** The position of the last scrub; null: it has read nothing yet, or everything. */
  readonly position: ScrubPosition | null;
  /** When a scrub was last complete; null: none was. */
  readonly completedAt: Date | null;
  /** A command of an operator found that reading the mirror ends processes. */
  readonly isExaminationAsked: boolean;
}

export const NEVER_SCRUBBED: ScrubRecord = {
  beganAt: null,
  position: null,
  completedAt: null,
  isExaminationAsked: false,
};

/** The next scrub begins after this part of the time, so that each block is read within all of it. */
const BEGINS_AFTER = 0.9;

/** Returns the scrub that a slice belongs to now; null: none is due. A clock that was set back makes one due. */
export function dueScrub(record: ScrubRecord, everyMs: number, now: Date): ScrubRecord | null {
  const { beganAt, completedAt } = record;
  if (beganAt === null) return { ...record, beganAt: now };
  const isOver = completedAt !== null && completedAt >= beganAt;
  if (!isOver) return record;
  const agoMs = now.getTime() - beganAt.getTime();
  return agoMs >= 0 && agoMs < BEGINS_AFTER * everyMs ? null : { ...record, beganAt: now, position: null };
}

/** Returns the record after a slice that ended `now`. */
export function afterSlice(
  record: ScrubRecord,
  { position, isAtEnd }: ScrubbedSlice,
  now: Date,
): ScrubRecord {
  if (!isAtEnd) return { ...record, position };
  // A clock that was set back does not make a scrub last for ever.
  const completedAt = record.beganAt !== null && record.beganAt > now ? record.beganAt : now;
  return { ...record, position: null, completedAt };
}
