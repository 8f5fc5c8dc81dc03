/** Counts what happened in histories, by name, so that what a run never did is seen. */

export type Counts = Readonly<Record<string, number>>;

export class Counters {
  readonly #counts = new Map<string, number>();

  add(name: string, by = 1): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + by);
  }

  counts(): Counts {
    return Object.fromEntries(this.#counts);
  }
}

export function sum(all: readonly Counts[]): Counts {
  const total = new Counters();
  for (const counts of all) for (const [name, count] of Object.entries(counts)) total.add(name, count);
  return total.counts();
}

/** A table of the counts in the order of `names`, two columns of which fit beside each other on a screen. */
export function table(title: string, names: readonly string[], counts: Counts): string {
  const width = Math.max(...names.map((name) => name.length));
  const lines = names.map((name) => `  ${name.padEnd(width)} ${String(counts[name] ?? 0).padStart(6)}`);
  return [title, ...lines].join('\n');
}

/** What was never counted. */
export function missing(names: readonly string[], counts: Counts): readonly string[] {
  return names.filter((name) => (counts[name] ?? 0) === 0);
}
