/**
 * A county feed to which things happen by chance: versions of every kind, schemas that change, datasets that leave and come
 * back. What happens depends on the seed alone, never on what the program does.
 */

import { NOT_RECORDED_FORMS } from '../../fixtures/feed/model.ts';
import type { Content } from '../../fixtures/source/content.ts';
import { withAddedColumn, withNullableColumn, withRemovedColumn } from '../../fixtures/source/evolve.ts';
import type { Random } from '../../fixtures/source/random.ts';
import type { CountyFeed } from './county-feed.ts';

/** How often each kind of version is published, in a hundred. */
const KINDS = [
  ['changes', 55],
  ['a gap', 10],
  ['changes that are not recorded', 10],
  ['a column more', 10],
  ['a column less', 8],
  ['a column that may be empty', 7],
] as const;

export type VersionKind = (typeof KINDS)[number][0];

export class LivelyFeed {
  readonly #county: CountyFeed;
  readonly #random: Random;
  readonly #counts = new Map<VersionKind, number>();
  readonly #away = new Set<string>();
  #published = 0;

  constructor(county: CountyFeed, random: Random) {
    this.#county = county;
    this.#random = random;
  }

  /** Versions that were published so far, beside the first ones. */
  get published(): number {
    return this.#published;
  }

  /** How many of each kind. */
  get counts(): ReadonlyMap<VersionKind, number> {
    return this.#counts;
  }

  /** Those that are in the subscription. */
  get members(): readonly string[] {
    return this.#county.datasetIds.filter((datasetId) => !this.#away.has(datasetId));
  }

  /** Publishes so many versions of datasets that are there. @returns the datasets. */
  publish(times: number): ReadonlySet<string> {
    const published = new Set<string>();
    for (let count = 0; count < times; count += 1) {
      const datasetId = this.#random.pick(this.members);
      this.publishOf(datasetId, this.#kind());
      published.add(datasetId);
    }
    return published;
  }

  publishOf(datasetId: string, kind: VersionKind): void {
    const { contentOf, publishNext, feed } = this.#county;
    this.#published += 1;
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
    const content = contentOf(datasetId);
    switch (kind) {
      case 'changes':
        publishNext(datasetId);
        return;
      case 'a gap': {
        const newest = feed.store.dataset(datasetId).versions.at(-1)?.version ?? 0;
        publishNext(datasetId, undefined, { version: newest + this.#random.integer(2, 5) });
        return;
      }
      case 'changes that are not recorded':
        publishNext(datasetId, undefined, { notRecordedAs: this.#random.pick(NOT_RECORDED_FORMS) });
        return;
      case 'a column more':
        publishNext(datasetId, this.#withColumn(content));
        return;
      case 'a column less':
        publishNext(datasetId, withRemovedColumn(content, this.#random.pick(removable(content))));
        return;
      case 'a column that may be empty':
        publishNext(datasetId, withNullableColumn(content, this.#random.pick(removable(content))));
    }
  }

  /** One dataset leaves, or one that has left comes back. */
  move(): string {
    const [away] = this.#away;
    const { publisher } = this.#county.feed;
    if (away !== undefined) {
      this.#away.delete(away);
      publisher.restore(away);
      return away;
    }
    const leaving = this.#random.pick(this.members);
    this.#away.add(leaving);
    publisher.remove(leaving, 'left_coverage');
    return leaving;
  }

  #kind(): VersionKind {
    let ticket = this.#random.integer(1, 100);
    const drawn = KINDS.find(([, share]) => {
      ticket -= share;
      return ticket <= 0;
    });
    return drawn?.[0] ?? 'changes';
  }

  #withColumn(content: Content): Content {
    const name = `note_${this.#published}`;
    const isSparse = this.#random.chance(0.5);
    return withAddedColumn(content, { name, type: 'string', nullable: true }, ([first]) => {
      const text = String(first);
      return isSparse && text.length % 2 === 0 ? null : `${name} of ${text}`;
    });
  }
}

function removable({ schema: { columns, keyColumns } }: Content): readonly string[] {
  return columns.map(({ name }) => name).filter((name) => !keyColumns.includes(name));
}
