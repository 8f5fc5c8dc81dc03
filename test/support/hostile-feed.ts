/**
 * A service that does what the rules of catching up fear most, beside a real mirror: versions that are published, replaced,
 * withdrawn and restarted, datasets that move between subscriptions with and without events, logs that restart, and time
 * that passes only as the test says. Every catch-up is judged: what it calls up to date has to be what is published.
 *
 * Every publication writes amounts that none had before, so that rows show which publications a table is made of.
 */

import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { PublishOptions, ReplaceOptions, RestartOptions } from '../../fixtures/feed/publish.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import type { Change, Row } from '../../fixtures/source/content.ts';
import { exitCodeOfResult } from '../../src/cli/render/summary.ts';
import { systemClock } from '../../src/lib/clock.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { mirrorIn, temporaryFolder } from './duckdb-mirror.ts';
import { CANARY_KEY, impatientClock, testFeed } from './feed-client.ts';
import { mirrorDifferences } from './mirror-comparison.ts';
import { everythingPublished, type PublishedDataset } from './published.ts';
import { refuseSecret } from './secret-search.ts';
import { smallContent } from './small-content.ts';
import { kinds, smallWorld, type World } from './small-world.ts';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** The ways in which a manifest says, or does not say, how new it is: the words of a test's title, and the options of the feed. */
export const MANIFEST_KINDS: readonly (readonly [string, FixtureFeedOptions])[] = [
  ['with lastEventId', {}],
  ['without lastEventId', { contract: { manifestLastEventId: false } }],
  ['of each dataset', { contract: { manifest: 'dataset' } }],
];

/** Longer than an absence has to last, and shorter than a manifest may lag. */
const STEP_MS = 11 * MINUTE_MS;
/** By then every event is covered by a manifest that may lag, so that what it lacks is absent. */
const MIN_CALM_RUNS = 3;
/** Catch-ups after which everything is up to date once the service is calm: as many as wait for the longest of the rules. */
const MAX_CALM_RUNS = 12;

export interface HostileOptions extends FixtureFeedOptions {
  /** The datasets of each subscription at the beginning, each at version 1. */
  readonly subscriptions: Readonly<Record<string, readonly string[]>>;
}

export interface HostileFeed {
  readonly feed: FixtureFeed;
  readonly world: World;
  /** Publishes the next version: a row more and one changed. */
  publish(datasetId: string, options?: PublishOptions): void;
  /** Puts other rows, as many, under the number of the newest version, by default with a resync. */
  replace(datasetId: string, options?: ReplaceOptions): void;
  /** Begins the versions anew with a version of two rows, by default without an event. */
  restart(datasetId: string, options?: RestartOptions): void;
  /** Time passes, for the service and for the program. */
  pass(durationMs: number): void;
  /** Sets the clock of the program's machine. */
  jump(byMs: number): void;
  /** Does something once, at the next request of the operation (about the subscription or dataset), before its answer. */
  at(operation: string, about: string | null, act: () => void): void;
  /**
   * Catches up, and expects nothing to be called up to date that is not. `isMoving`: the service moves meanwhile, so that what is up to
   * date may be so no more.
   */
  once(options?: { readonly isMoving?: boolean }): Promise<Seen>;
  /** Everything goes on undisturbed until nothing waits: then the mirror is what is published, and nothing is loaded any more. */
  expectRightInTheEnd(): Promise<void>;
}

export interface Seen {
  readonly exitCode: number;
  /** By dataset: `loaded`, `applied`, `waiting`, `current`, `retired` … */
  readonly kinds: Readonly<Record<string, string>>;
  /** When trying again helps, in minutes from now; null where nobody knows, or nothing waits. */
  readonly untilMinutes: number | null;
  readonly result: CatchUpResult;
}

export async function hostileFeed({ subscriptions, ...options }: HostileOptions): Promise<HostileFeed> {
  const feed = await startFixtureFeed({
    apiKey: CANARY_KEY,
    clock: stillClock('2026-03-01T12:00:00Z'),
    ...options,
    answers: { unknownPosition: 'taken', ...options.answers },
  });
  onTestFinished(feed.close);
  const one = new Hostile(feed, await worldOf(feed));
  one.begin(subscriptions);
  return one;
}

/** A service and a mirror of `x` at this version, which sub_1 alone contains. */
export async function hostileFeedAt(version: number, options: FixtureFeedOptions = {}): Promise<HostileFeed> {
  const one = await hostileFeed({ subscriptions: { sub_1: ['x'] }, ...options });
  await one.once();
  for (let next = 2; next <= version; next += 1) one.publish('x');
  await one.once();
  return one;
}

async function worldOf(feed: FixtureFeed): Promise<World & { readonly folder: string; jumpedMs: number }> {
  const world = Object.assign(await smallWorld(), { folder: '', jumpedMs: 0 });
  const local = () => new Date(feed.clock.now().getTime() + world.jumpedMs);
  const { feed: client, logged } = testFeed(feed.baseUrl, { clock: { ...impatientClock(), now: local } });
  const { path: folder, [Symbol.asyncDispose]: remove } = await temporaryFolder();
  const destination = await mirrorIn(folder);
  onTestFinished(async () => {
    await client.close();
    await destination.close();
    refuseSecret(feed.apiKey, { texts: [...logged, JSON.stringify(world.logged)], folders: [folder] });
    await remove();
  });
  const clock = { ...systemClock, now: local };
  Object.assign(world.parts, { feed: client, destination, clock });
  Object.assign(world.parts.choices, { stagingDirectory: join(folder, 'staging') });
  return Object.assign(world, { folder });
}

type HostileWorld = Awaited<ReturnType<typeof worldOf>>;

class Hostile implements HostileFeed {
  readonly feed: FixtureFeed;
  readonly world: HostileWorld;
  #amount = 0;

  constructor(feed: FixtureFeed, world: HostileWorld) {
    this.feed = feed;
    this.world = world;
  }

  begin(subscriptions: HostileOptions['subscriptions']): void {
    const { publisher } = this.feed;
    for (const [subscriptionId, datasetIds] of Object.entries(subscriptions)) {
      publisher.subscribe({ subscriptionId, datasetIds });
    }
    for (const datasetId of new Set(Object.values(subscriptions).flat())) {
      publisher.addDataset({ datasetId });
      publisher.publish(datasetId, smallContent(this.#firstRows()));
    }
  }

  publish(datasetId: string, options: PublishOptions = {}): void {
    const before = this.#rowsOf(datasetId);
    const changed: Row = [`r0`, this.#next()];
    const added: Row = [`r${before.length}`, this.#next()];
    const changes: Change[] = [
      { op: 'changed', row: changed },
      { op: 'added', row: added },
    ];
    const content = smallContent([changed, ...before.slice(1), added], changes);
    this.feed.publisher.publish(datasetId, content, options);
  }

  replace(datasetId: string, options: ReplaceOptions = {}): void {
    const rows = this.#rowsOf(datasetId).map(([id = null]): Row => [id, this.#next()]);
    this.feed.publisher.replace(datasetId, smallContent(rows, null), options);
  }

  restart(datasetId: string, options: RestartOptions = {}): void {
    this.feed.publisher.restart(datasetId, smallContent(this.#firstRows()), { announce: false, ...options });
  }

  pass(durationMs: number): void {
    this.feed.clock.advance(durationMs);
  }

  jump(byMs: number): void {
    this.world.jumpedMs += byMs;
  }

  at(operation: string, about: string | null, act: () => void): void {
    const end = this.feed.onRequest((request) => {
      const isIt = about === null || request.datasetId === about || request.subscriptionId === about;
      if (request.operation !== operation || !isIt) return;
      end();
      act();
    });
  }

  async once({ isMoving = false }: { readonly isMoving?: boolean } = {}): Promise<Seen> {
    const result = await this.world.catchUp();
    if (!isMoving) await this.#expectNothingWrong(result);
    return {
      exitCode: exitCodeOfResult(result),
      kinds: kinds(result),
      untilMinutes: this.#untilMinutes(result),
      result,
    };
  }

  async expectRightInTheEnd(): Promise<void> {
    const { checkpoint } = this.world.parts;
    let seen = await this.once();
    const isSettled = () => seen.exitCode === 0 && checkpoint.absences().length === 0;
    for (let runs = 1; runs < MIN_CALM_RUNS || !isSettled(); runs += 1) {
      const left = tellLeft(seen, checkpoint.absences());
      expect(runs, `catch-ups until nothing waits: ${left}`).toBeLessThan(MAX_CALM_RUNS);
      this.pass(STEP_MS);
      seen = await this.once();
    }
    await this.#expectNewest();
    this.feed.requests.clear();
    expect(Object.values((await this.once()).kinds).filter((kind) => kind !== 'current')).toEqual([]);
    const fetched = [...this.feed.requests.entries('file'), ...this.feed.requests.entries('changes')];
    expect(fetched).toEqual([]);
  }

  async #expectNothingWrong({ datasets }: CatchUpResult): Promise<void> {
    const upToDate = datasets.filter(
      (one) => (one.kind === 'current' || one.kind === 'updated') && one.recheckAt === null,
    );
    const ids = new Set(upToDate.map(({ datasetId }) => datasetId));
    // The catalog is compared for all tables, rows only for those that are reported as right.
    const differences = await this.#differences(everythingKnown(this.feed));
    expect(differences.filter((text) => ids.has(text.split(': ', 1)[0] ?? ''))).toEqual([]);
  }

  async #expectNewest(): Promise<void> {
    expect(await this.#differences()).toEqual([]);
  }

  #differences(datasets?: readonly PublishedDataset[]): Promise<readonly string[]> {
    const expected = everythingPublished(this.feed);
    return mirrorDifferences(join(this.world.folder, 'mirror.duckdb'), {
      ...expected,
      datasets: datasets ?? expected.datasets,
    });
  }

  /** Of all that wait and of all that is to be read again. */
  #untilMinutes({ datasets }: CatchUpResult): number | null {
    const times = datasets.flatMap((one) => {
      if (one.kind === 'waiting') return one.until === null ? [] : [one.until.getTime()];
      return 'recheckAt' in one && one.recheckAt !== null ? [one.recheckAt.getTime()] : [];
    });
    if (times.length === 0) return null;
    return (Math.min(...times) - this.feed.clock.now().getTime()) / MINUTE_MS;
  }

  #rowsOf(datasetId: string): readonly Row[] {
    const newest = this.feed.store.dataset(datasetId).versions.at(-1);
    if (newest === undefined) throw new Error(`${datasetId} has no version`);
    return [...newest.content.rows()];
  }

  #firstRows(): readonly Row[] {
    return ['r0', 'r1'].map((id): Row => [id, this.#next()]);
  }

  #next(): number {
    this.#amount += 1;
    return this.#amount;
  }
}

/** Every dataset at its newest version, whether a subscription contains it or not. */
function everythingKnown({ store }: FixtureFeed): readonly PublishedDataset[] {
  return [...store.datasets.values()].flatMap(({ datasetId, versions }) => {
    const version = versions.at(-1);
    return version === undefined ? [] : [{ datasetId, version }];
  });
}

function tellLeft({ result, exitCode }: Seen, absences: readonly unknown[]): string {
  const { datasets, incidents, suspensions } = result;
  const left = datasets.filter(({ kind }) => kind !== 'current' && kind !== 'updated');
  const texts = incidents.map(({ error }) => error.message);
  return JSON.stringify({ exitCode, left, texts, suspensions, absences });
}

/** Expects the mirror to have these versions, and no other tables. */
export async function expectVersions(
  { world }: HostileFeed,
  versions: Readonly<Record<string, number>>,
): Promise<void> {
  const { datasets } = await world.parts.destination.has();
  const actual = [...datasets.values()].map(({ datasetId, version }) => [datasetId, version]);
  expect(Object.fromEntries(actual)).toEqual(versions);
}

/** The subscription whose manifest the table was loaded through. */
export async function loadedThrough({ world }: HostileFeed, datasetId: string): Promise<string | null> {
  const { datasets } = await world.parts.destination.has();
  return datasets.get(datasetId)?.loadedThrough ?? null;
}
