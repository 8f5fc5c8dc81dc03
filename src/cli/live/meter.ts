/** How much has arrived, and how fast: the rate of the last seconds, so that it follows a network that changes. Time is passed in. */

/** The rate is that of so long: long enough to stand still for the eye, short enough to tell a standstill soon. */
const WINDOW_MS = 10_000;
/** What arrives within so long is one sample: few are kept, however often something arrives. */
const SAMPLE_EVERY_MS = 500;
/** A rate of a shorter time is chance. */
const LEAST_SPAN_MS = 1_000;

interface Sample {
  readonly atMs: number;
  /** What had arrived before. */
  readonly before: number;
}

export class Meter {
  #total = 0;
  #samples: readonly Sample[];

  /** `nowMs`: on a clock that only goes forward, as everywhere here. */
  constructor(nowMs: number) {
    this.#samples = [{ atMs: nowMs, before: 0 }];
  }

  get total(): number {
    return this.#total;
  }

  add(amount: number, nowMs: number): void {
    const newest = this.#samples.at(-1);
    if (newest === undefined || nowMs - newest.atMs >= SAMPLE_EVERY_MS) {
      this.#samples = [...this.#within(nowMs), { atMs: nowMs, before: this.#total }];
    }
    this.#total += amount;
  }

  /** Per second; null: too early to tell. */
  rate(nowMs: number): number | null {
    const [oldest] = this.#within(nowMs);
    // Nothing has arrived for the whole window.
    if (oldest === undefined) return 0;
    const spanMs = nowMs - oldest.atMs;
    return spanMs < LEAST_SPAN_MS ? null : ((this.#total - oldest.before) * 1_000) / spanMs;
  }

  #within(nowMs: number): readonly Sample[] {
    return this.#samples.filter(({ atMs }) => nowMs - atMs <= WINDOW_MS);
  }
}

/** Milliseconds until the rest has arrived; null: there is no telling. */
export function timeLeftMs(meter: Meter, total: number | null, nowMs: number): number | null {
  const rate = meter.rate(nowMs);
  if (total === null || rate === null || rate <= 0) return null;
  return (Math.max(0, total - meter.total) * 1_000) / rate;
}
