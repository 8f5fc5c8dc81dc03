/**
 * Scrubs the mirror while nothing else is to be done: reads every block of it within `scrub.every`, a slice at a time, and then the
 * checkpoint. The position is stored, so that a restart reads nothing twice.
 *
 * Invariant: no slice begins while a dataset is worked on or waits for work, and one that is running stops.
 */

import { StorageError } from '../model/errors.ts';
import { afterSlice, dueScrub, type ScrubDamage, type ScrubRecord } from '../model/scrub.ts';
import type { Session } from './session.ts';

/** Between two slices, so that a scrub takes a small part of the disk. */
const BETWEEN_SLICES_MS = 30_000;
/** How often it is seen whether a scrub is due. */
const SEE_EVERY_MS = 60_000;
/** A check reads the whole checkpoint, and an error that lasts is rather that of a full disk. */
const CHECK_AGAIN_MS = 10 * 60_000;

interface ScrubberOptions {
  readonly session: Session;
  /** The stores are to be opened again: another process reads the mirror before, and a damaged checkpoint is made anew. */
  readonly onSuspect: () => void;
}

export class Scrubber {
  readonly #session: Session;
  readonly #onSuspect: () => void;
  /** Null: not decided yet. A scrub that was under way goes on at once. */
  #dueMs: number | null = null;
  #reading: Promise<void> | null = null;
  /** From when on an error has the checkpoint checked, on the monotonic clock. */
  #checkMs = Number.NEGATIVE_INFINITY;

  constructor({ session, onSuspect }: ScrubberOptions) {
    this.#session = session;
    this.#onSuspect = onSuspect;
  }

  /** `isSettled`: every log was read, and no dataset is worked on or behind. */
  beginIfDue(isSettled: boolean): void {
    const { parts, timing } = this.#session;
    const { scrubEveryMs } = timing;
    const nowMs = this.#session.nowMs();
    const canRead = isSettled && parts.destination.scrubbing !== undefined && this.#reading === null;
    if (!canRead || scrubEveryMs === undefined) return;
    this.#dueMs ??= nowMs + (parts.checkpoint.scrub().position === null ? BETWEEN_SLICES_MS : 0);
    if (nowMs < this.#dueMs) return;
    this.#dueMs = nowMs + SEE_EVERY_MS;
    const due = dueScrub(parts.checkpoint.scrub(), scrubEveryMs, parts.clock.now());
    if (due === null) return;
    this.#reading = this.#readSlice(due)
      .then(() => this.#session.resolve('scrub'))
      .catch((error: unknown) => this.#session.raise('scrub', error))
      .finally(() => {
        this.#dueMs = this.#session.nowMs() + BETWEEN_SLICES_MS;
        this.#reading = null;
      });
  }

  /** Another process may have asked for an examination. */
  seeRequest(): void {
    const { checkpoint, destination, log } = this.#session.parts;
    const record = checkpoint.scrub();
    if (!record.isExaminationAsked || destination.scrubbing === undefined) return;
    log.warn(
      {},
      'Reading the mirror ends processes: the stores are opened again, and another process reads it first.',
    );
    checkpoint.keepScrub({ ...record, isExaminationAsked: false });
    destination.scrubbing.suspect();
    this.#onSuspect();
  }

  /**
   * After an error of a store the checkpoint may be damaged: then the stores are opened again. `error` is null after a round of the loop
   * without one. Where the checkpoint cannot even be examined, the incident of the loop says so.
   */
  noteRound(error: unknown): void {
    const nowMs = this.#session.nowMs();
    if (error === null) this.#checkMs = nowMs;
    if (!(error instanceof StorageError) || nowMs < this.#checkMs) return;
    try {
      this.#seeCheckpoint();
      this.#checkMs = nowMs + CHECK_AGAIN_MS;
    } catch (unseen) {
      if (!(unseen instanceof StorageError)) throw unseen;
    }
  }

  /** A checkpoint that cannot be read is made anew when it is opened. */
  #seeCheckpoint(): boolean {
    const { checkpoint, log } = this.#session.parts;
    const why = checkpoint.damage();
    if (why === null) return false;
    log.error({ why }, 'The checkpoint is damaged: the stores are opened again.');
    this.#onSuspect();
    return true;
  }

  async ended(): Promise<void> {
    await this.#reading;
  }

  async #readSlice(due: ScrubRecord): Promise<void> {
    const { checkpoint, destination, clock, log } = this.#session.parts;
    const slice = await destination.scrubbing?.readSlice(due.position);
    if (slice === undefined) return;
    const after = afterSlice(due, slice, clock.now());
    if (slice.isAtEnd && this.#seeCheckpoint()) return;
    checkpoint.keepScrub({ ...after, isExaminationAsked: checkpoint.scrub().isExaminationAsked });
    if (slice.damage !== null) this.#noteDamage(slice.damage);
    if (slice.isAtEnd)
      log.info({ since: due.beganAt }, 'Every block of the mirror and the checkpoint was read.');
  }

  #noteDamage({ tableName: table, endsProcess, why }: ScrubDamage): void {
    const { destination, log } = this.#session.parts;
    log.error({ table, why }, 'A scrub found the mirror damaged.');
    if (!endsProcess) {
      this.#session.hasMetDamage = true;
      return;
    }
    destination.scrubbing?.suspect();
    this.#onSuspect();
  }
}
