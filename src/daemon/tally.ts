/** Counts what happens, since the start of the process. Pure but for its own numbers. */

import type { Happening, Tally } from './state.ts';

type Counted<Key> = Key extends ReadonlyMap<infer Name, number> ? Map<Name, number> : never;

export class Counts {
  readonly #events: Counted<Tally['events']> = new Map();
  readonly #commits: Counted<Tally['commits']> = new Map();
  readonly #rows: Counted<Tally['rows']> = new Map();
  readonly #resyncs: Counted<Tally['resyncs']> = new Map();
  readonly #requests = new Map<string, Map<string, number>>();
  #downloadedBytes = 0;
  #polls = 0;
  #audits = 0;
  #interruptions = 0;

  add(happening: Happening): void {
    switch (happening.kind) {
      case 'request':
        this.#addRequest(happening.operation, happening.status);
        return;
      case 'events':
        increase(this.#events, happening.type);
        return;
      case 'bytes':
        this.#downloadedBytes += happening.bytes;
        return;
      case 'commit':
        this.#addCommit(happening);
        return;
      case 'retired':
        increase(this.#commits, 'retirement');
        return;
      case 'poll':
        this.#polls += 1;
        return;
      case 'audit':
        this.#audits += 1;
        return;
      case 'interruption':
        this.#interruptions += 1;
        return;
    }
  }

  /** As of now; it changes no more. */
  tally(): Tally {
    return {
      events: new Map(this.#events),
      commits: new Map(this.#commits),
      rows: new Map(this.#rows),
      resyncs: new Map(this.#resyncs),
      requests: new Map([...this.#requests].map(([operation, byStatus]) => [operation, new Map(byStatus)])),
      downloadedBytes: this.#downloadedBytes,
      polls: this.#polls,
      audits: this.#audits,
      interruptions: this.#interruptions,
    };
  }

  #addRequest(operation: string, status: number | null): void {
    const byStatus = this.#requests.get(operation) ?? new Map<string, number>();
    increase(byStatus, status === null ? 'none' : String(status));
    this.#requests.set(operation, byStatus);
  }

  #addCommit({ commit, resync }: Extract<Happening, { kind: 'commit' }>): void {
    increase(this.#commits, commit.kind);
    if (resync !== null) increase(this.#resyncs, resync);
    if (commit.net === null) {
      increase(this.#rows, 'loaded', commit.rowCount);
      return;
    }
    increase(this.#rows, 'added', commit.net.added);
    increase(this.#rows, 'changed', commit.net.changed);
    increase(this.#rows, 'removed', commit.net.removed);
  }
}

function increase<Name>(counts: Map<Name, number>, name: Name, by = 1): void {
  counts.set(name, (counts.get(name) ?? 0) + by);
}
