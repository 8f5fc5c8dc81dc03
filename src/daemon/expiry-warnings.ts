/** Warns before a position in a log can expire: 30, 14 and 3 days before, each time once. */

import { positionAgeMs, tellOldPosition } from '../sync/follow/position-age.ts';
import { dueExpiryWarningMs } from './liveness.ts';
import type { Session } from './session.ts';

/** Days pass slowly. */
const LOOK_EVERY_MS = 60_000;

export class ExpiryWarnings {
  readonly #session: Session;
  /** By subscription id: of how long before the end the last warning was. */
  readonly #warned = new Map<string, number>();
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(session: Session) {
    this.#session = session;
  }

  look(): void {
    const nowMs = this.#session.nowMs();
    if (nowMs - this.#lookedMs < LOOK_EVERY_MS) return;
    this.#lookedMs = nowMs;
    const { checkpoint, clock, log } = this.#session.parts;
    for (const followed of checkpoint.followed().values()) {
      const { subscriptionId } = followed;
      const ageMs = positionAgeMs(followed, clock.now());
      const due = dueExpiryWarningMs(ageMs, this.#warned.get(subscriptionId) ?? null);
      if (due === 'none') this.#warned.delete(subscriptionId);
      else if (due !== 'given') {
        this.#warned.set(subscriptionId, due);
        tellOldPosition(followed, log);
      }
    }
  }
}
