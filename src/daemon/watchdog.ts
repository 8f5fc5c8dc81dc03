/**
 * Notices that nothing moves any more: while something is under way, bytes have to arrive, pages to be read, rows to be
 * written or statements to end. Pure: time is passed in.
 *
 * Waiting that somebody planned is no standstill: for a reader of the mirror, or for as long as the service asked.
 */

/** Where nothing has moved for so long, what is under way is interrupted. */
export const STANDSTILL_MS = 5 * 60_000;

export class Watchdog {
  #movedMs: number;

  constructor(nowMs: number) {
    this.#movedMs = nowMs;
  }

  /** When something last moved, or is expected to, on the monotonic clock. */
  get movedMs(): number {
    return this.#movedMs;
  }

  /** Something got on. */
  moved(nowMs: number): void {
    this.#movedMs = Math.max(this.#movedMs, nowMs);
  }

  /** Nothing is expected to move before `untilMs`. */
  planned(untilMs: number): void {
    this.moved(untilMs);
  }

  standsStill(nowMs: number, isUnderWay: boolean): boolean {
    if (!isUnderWay) this.moved(nowMs);
    return nowMs - this.#movedMs >= STANDSTILL_MS;
  }
}
