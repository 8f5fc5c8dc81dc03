/**
 * A reader, a process of its own, that opens the mirror again and again while versions are applied: in every opening it
 * sees each dataset at exactly one published version, and no table is missing.
 */

import { expect, it, onTestFinished } from 'vitest';
import type { Content } from '../../fixtures/source/content.ts';
import { withAddedColumn, withRemovedColumn } from '../../fixtures/source/evolve.ts';
import { type CountyFeed, countyFeed } from '../support/county-feed.ts';
import { once } from '../support/expect-mirrored.ts';
import { MirrorReader, type Sight } from '../support/mirror-reader.ts';
import { program } from '../support/program.ts';
import { digestOfContent, type Seen } from '../support/table-digest.ts';

const NOTE = { name: 'note', type: 'string', nullable: true } as const;

/** What is published before one catch-up; the reader is to see `first` at its newest while `last` is not there yet. */
interface Round {
  readonly publish: () => void;
  readonly first: string;
  readonly last: string;
}

it('F34 a reader sees every dataset at exactly one published version, however it is applied', async () => {
  const county = await countyFeed({ kinds: ['parcels', 'permits', 'ordinances'], rowsPerDataset: 40 });
  const { feed } = county;
  const installed = await program({
    feed,
    environment: { FEED_SYNC_SCHEMA_CHANGES: 'alter', FEED_SYNC_REMOVED_DATASETS: 'drop' },
  });
  const published = new Publications(county);
  const wrong: Sight[] = [];
  const reader = new MirrorReader(installed.mirrorPath, ({ sight }) => {
    if (!published.hasAll(sight)) wrong.push(sight);
  });
  onTestFinished(() => reader.stop());

  await once(installed);
  await reader.sees((sight) => published.isNewest(sight, ...county.datasetIds));
  const rounds = roundsOf(county);
  for (const { publish, first, last } of rounds) {
    publish();
    published.note();
    const between = reader.sees(
      (sight) => published.isNewest(sight, first) && !published.isNewest(sight, last),
    );
    for (const operation of ['changes', 'file'] as const) {
      const act = { kind: 'wait', until: () => between } as const;
      feed.faults.add({ match: { operation, datasetId: last, times: 'always' }, act });
    }
    await once(installed);
    await reader.sees((sight) => published.isNewest(sight, ...feed.store.subscription('sub_1').members));
    feed.faults.clear();
  }
  expect(wrong).toEqual([]);
  expect(reader.distinct).toBeGreaterThanOrEqual(1 + 2 * rounds.length);
});

function roundsOf({ feed, datasetOf, publishNext, contentOf }: CountyFeed): readonly Round[] {
  const [parcels, permits, ordinances] = [
    datasetOf('parcels'),
    datasetOf('permits'),
    datasetOf('ordinances'),
  ];
  return [
    {
      // Changes; those of several versions as one; a column added.
      publish() {
        publishNext(parcels);
        for (let version = 0; version < 3; version += 1) publishNext(permits);
        const noted = withAddedColumn(contentOf(ordinances), NOTE, ([chapter]) => `of ${String(chapter)}`);
        publishNext(ordinances, noted);
      },
      first: permits,
      last: parcels,
    },
    {
      // A breaking schema; other content under the same number; a dataset that leaves.
      publish() {
        publishNext(parcels, withRemovedColumn(contentOf(parcels), 'owner_name'));
        feed.publisher.resync(permits, 'subscription_changed', {
          content: withoutItsFirstRow(contentOf(permits)),
        });
        feed.publisher.remove(ordinances, 'left_coverage');
      },
      first: permits,
      last: parcels,
    },
    {
      // It comes back; the changes of another are not recorded.
      publish() {
        publishNext(parcels, undefined, { notRecordedAs: 'gone' });
        feed.publisher.restore(ordinances);
      },
      first: ordinances,
      last: parcels,
    },
  ];
}

function withoutItsFirstRow(content: Content): Content {
  const rows = [...content.rows()].slice(1);
  return { ...content, rowCount: rows.length, rows: () => rows };
}

/** Every content that a version of a dataset ever had, as a reader sees it. */
class Publications {
  readonly #county: CountyFeed;
  readonly #known = new Set<string>();

  constructor(county: CountyFeed) {
    this.#county = county;
    this.note();
  }

  /** Takes in what was published since. */
  note(): void {
    for (const datasetId of this.#county.datasetIds) {
      for (const { version, content } of this.#county.feed.store.dataset(datasetId).versions)
        this.#known.add(textOf(datasetId, { version, digest: digestOfContent(content) }));
    }
  }

  hasAll(sight: Sight): boolean {
    return Object.entries(sight).every(([datasetId, seen]) => this.#known.has(textOf(datasetId, seen)));
  }

  isNewest(sight: Sight, ...datasetIds: readonly string[]): boolean {
    return datasetIds.every((datasetId) => {
      const newest = this.#county.feed.store.dataset(datasetId).versions.at(-1);
      const seen = sight[datasetId];
      if (newest === undefined || seen === undefined) return false;
      return seen.version === newest.version && seen.digest === digestOfContent(newest.content);
    });
  }
}

function textOf(datasetId: string, { version, digest }: Seen): string {
  return `${datasetId} v${version} ${digest}`;
}
