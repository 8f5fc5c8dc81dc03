/** Holds, told once when they are found to stand and once when they are lifted, whoever stored or lifted them. */

import type { Hold } from '../checkpoint/checkpoint.ts';
import type { Log } from '../lib/log.ts';
import type { RefusalScope } from '../model/errors.ts';

export class HoldLog {
  readonly #log: Log;
  #told = new Map<string, Hold>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** How many stand. */
  get standing(): number {
    return this.#told.size;
  }

  look(holds: readonly Hold[]): void {
    const standing = new Map(holds.map((hold) => [nameOf(hold.refusal.scope), hold]));
    for (const [of, { refusal, heldAt }] of standing) {
      if (this.#told.get(of)?.refusal.message === refusal.message) continue;
      const { operation, status, code, message, links } = refusal;
      const fields = {
        of,
        operation,
        status,
        ...(code === null ? {} : { code }),
        why: message,
        links: Object.fromEntries(links),
        since: heldAt,
      };
      this.#log.warn(fields, 'Held: a person has to act. See feed-sync status.');
    }
    for (const of of this.#told.keys()) if (!standing.has(of)) this.#log.info({ of }, 'Held no more.');
    this.#told = standing;
  }
}

function nameOf(scope: RefusalScope): string {
  switch (scope.kind) {
    case 'workspace':
      return 'workspace';
    case 'retirement':
      return 'retirements';
    case 'subscription':
      return `subscription ${scope.subscriptionId}`;
    case 'dataset':
      return `dataset ${scope.datasetId}`;
  }
}
