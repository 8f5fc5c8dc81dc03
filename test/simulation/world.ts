/**
 * The world of one history: a feed with its datasets, an installation that mirrors it, and one clock for both. It keeps
 * every version that was ever published, because a mirror may be at any of them until it has caught up.
 */

import type { FreezeTarget } from '../../fixtures/feed/manifest-view.ts';
import type { DatasetVersion } from '../../fixtures/feed/model.ts';
import type { Omission } from '../../fixtures/feed/omissions.ts';
import type { PublishOptions, RestartOptions } from '../../fixtures/feed/publish.ts';
import { currentVersion, type NewSubscription } from '../../fixtures/feed/store.ts';
import type { Content } from '../../fixtures/source/content.ts';
import { type GeneratedDataset, generateDatasets } from '../../fixtures/source/generate.ts';
import { type Random, randomFrom } from '../../fixtures/source/random.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { Counters } from './counters.ts';
import { EventLogs } from './event-log.ts';
import type { Settings } from './settings.ts';
import type { FeedSide, Installation, Stage, Store } from './stage.ts';
import { type Rows, TableLine } from './table-line.ts';

const FIRST = 'sub_1';
/** Between two catch-ups. */
const TICK_MS = 1_000;
/** Less than a manifest is trusted to lag, by what catch-ups take. */
const LONGEST_LAG_MS = 10 * 60_000;
/** Less than what is absent has to be, to be believed to be gone. */
const LONGEST_SKIP_MS = 9 * 60_000;

export class World {
  readonly seed: number;
  readonly settings: Settings;
  readonly stage: Stage;
  readonly logs: EventLogs;
  readonly counters: Counters;
  /** The steps so far, as text. */
  readonly reported: string[] = [];
  /** Where the steps draw from; each step has its own. */
  random: Random;

  /** By dataset id: everything that was ever published, also what was issued anew and what was forgotten. */
  readonly published = new Map<string, DatasetVersion[]>();
  /** Datasets whose versions began again at a lower one. */
  readonly wentBack = new Set<string>();
  /** Datasets that left a subscription or came back to one since the mirror last was at the newest. */
  readonly unreadMoves = new Set<string>();
  /** Datasets that left without an event. */
  readonly lostRemovals = new Set<string>();
  /** Not listed by the service, though it is there. */
  hidden: string | null = null;
  isFrozen = false;
  /** Since the last calm a position expired, a store was lost or old, or a subscription was listed no more. */
  hasLostTrack = false;
  /** Datasets that a manifest from before may bring back to an old version, because it is all that is known. */
  readonly mayGoBack = new Set<string>();
  /** Subscriptions that an operator has forgotten. */
  readonly formerSubscriptionIds = new Set<string>();
  /** What is in no subscription, or was not since the last calm: its table may go. */
  readonly mayLeave = new Set<string>();
  /** Datasets of which a file was damaged: only other content helps. */
  readonly damaged = new Set<string>();
  /** Datasets whose table was altered by hand or damaged since all tables were last compared with the service. */
  readonly suspects = new Set<string>();
  /** Violations of rules that were found where nothing could be thrown. */
  readonly broken: Error[] = [];

  /** A number may stand for another version since the last calm, and perhaps no event reported it. */
  hasRestartedSilently = false;
  /** Catch-ups of processes other than a daemon that sleeps. */
  catchUps = 0;

  /** Datasets that left or came back, of which the copy of the checkpoint may not know. */
  readonly movedSinceCopy = new Set<string>();

  #suspectsOfCopy: readonly string[] = [];
  readonly #lines = new Map<string, TableLine>();
  /** By subscription id, of those that are listed no more: its members. They are kept until an operator forgets the subscription. */
  readonly #unlisted = new Map<string, readonly string[]>();
  /** Stores that were lost since a subscription was listed no more. */
  readonly #lost = new Set<Store>();
  #subscriptions = 1;
  #frozenAt = new Date(0);
  /** When the first of the readings was made to lack something; null: none is. */
  #skippedAt: Date | null = null;

  constructor(seed: number, settings: Settings, stage: Stage, counters: Counters) {
    this.seed = seed;
    this.settings = settings;
    this.stage = stage;
    this.logs = new EventLogs(stage.feed, settings.eventsPerPage);
    this.counters = counters;
    this.random = randomFrom(seed, 1);
    this.#begin();
  }

  get feed(): FeedSide {
    return this.stage.feed;
  }

  get clock(): Clock {
    return this.stage.clock;
  }

  get installation(): Installation {
    return this.stage.installation;
  }

  get datasetIds(): readonly string[] {
    return [...this.#lines.keys()];
  }

  line(datasetId: string): TableLine {
    const line = this.#lines.get(datasetId);
    if (line === undefined) throw new Error(`there is no dataset ${datasetId}`);
    return line;
  }

  current(datasetId: string): DatasetVersion {
    const version = currentVersion(this.feed.store.dataset(datasetId));
    if (version === null) throw new Error(`${datasetId} has no version`);
    return version;
  }

  /** The datasets that some subscription contains. */
  get members(): readonly string[] {
    return this.datasetIds.filter((datasetId) => this.feed.store.subscriptionsOf(datasetId).length > 0);
  }

  anyMember(): string {
    return this.random.pick(this.members);
  }

  /** Publishes the next version of the dataset; says which. */
  publish(datasetId: string, rows: Rows = 'most', options: PublishOptions = {}): string {
    const previous = currentVersion(this.feed.store.dataset(datasetId));
    return this.publishContent(datasetId, this.contentOfNext(datasetId, rows), options, previous);
  }

  contentOfNext(datasetId: string, rows: Rows): Content {
    const previous = currentVersion(this.feed.store.dataset(datasetId));
    return this.line(datasetId).next(previous?.content ?? null, rows, this.random);
  }

  /** A version is issued anew under its number, or as it is where `content` is undefined. */
  resync(datasetId: string, content: Content | undefined): string {
    const reason = 'subscription_changed';
    this.feed.publisher.resync(datasetId, reason, content === undefined ? {} : { content });
    const version = this.current(datasetId);
    if (content !== undefined) this.#keep(datasetId, version);
    return `${datasetId} v${version.version}${content === undefined ? '' : ` of ${content.rowCount} rows`}`;
  }

  /** Of members, those with a version before the newest. */
  get withdrawable(): readonly string[] {
    return this.members.filter((datasetId) => this.feed.store.dataset(datasetId).versions.length > 1);
  }

  /** The newest version is taken back; what has it goes back. */
  withdraw(datasetId: string): string {
    const { version } = this.feed.publisher.withdraw(datasetId);
    this.wentBack.add(datasetId);
    // Another one may come under its number, and the event of that may be lost.
    this.hasRestartedSilently = true;
    this.line(datasetId).goBackTo(this.current(datasetId).content);
    return `${datasetId} v${version} is withdrawn`;
  }

  /** Its versions begin again at 1 or 2. Without an event that asks for a reload, only its publication time shows it, to a second. */
  restart(datasetId: string, announce: Exclude<RestartOptions['announce'], undefined>): string {
    const { random } = this;
    if (announce === false || announce === 'updated') this.pass(2_000);
    this.line(datasetId).startAgain(random);
    const content = this.line(datasetId).next(null, 'most', random);
    const version = random.integer(1, 2);
    this.wentBack.add(datasetId);
    const published = this.feed.publisher.restart(datasetId, content, { announce, version });
    if (announce === false || announce === 'updated') this.#keepReused(datasetId, published);
    else this.#keep(datasetId, published);
    if (announce === 'removed+added') this.noteMove(datasetId);
    return `${datasetId} v${version}, ${content.rowCount} rows`;
  }

  /**
   * Without an event, only the list of versions shows that a number stands for another version; it is read once a day
   * if nothing else asks for it.
   */
  restartSilently(datasetId: string): string {
    this.hasRestartedSilently = true;
    return this.restart(datasetId, false);
  }

  /** Which dataset may join which subscription. */
  get joinable(): readonly { readonly datasetId: string; readonly subscriptionId: string }[] {
    return [...this.feed.store.subscriptions.values()].flatMap(({ subscriptionId, members }) =>
      this.datasetIds.filter((id) => !members.has(id)).map((datasetId) => ({ datasetId, subscriptionId })),
    );
  }

  join(announce: boolean): string {
    const { datasetId, subscriptionId } = this.random.pick(this.joinable);
    this.feed.publisher.restore(datasetId, { subscriptionId, announce });
    this.noteMove(datasetId);
    return `${datasetId} joins ${subscriptionId}`;
  }

  /** The dataset leaves one subscription without an event. */
  leaveSilently(datasetId: string): string {
    const { subscriptionId } = this.random.pick(this.feed.store.subscriptionsOf(datasetId));
    this.feed.publisher.remove(datasetId, 'left_coverage', { subscriptionId, announce: false });
    this.noteMove(datasetId);
    return `${datasetId} leaves ${subscriptionId}`;
  }

  /** It joins one and leaves the other, so that some subscription contains it at any time. */
  moveOver(): string {
    const { store, publisher } = this.feed;
    const moving = this.joinable.filter(({ datasetId }) => store.subscriptionsOf(datasetId).length > 0);
    const { datasetId, subscriptionId } = this.random.pick(moving);
    const from = this.random.pick(store.subscriptionsOf(datasetId)).subscriptionId;
    publisher.restore(datasetId, { subscriptionId, announce: this.random.chance(0.5) });
    this.tick();
    publisher.remove(datasetId, 'left_coverage', { subscriptionId: from });
    this.noteMove(datasetId);
    return `${datasetId} from ${from} to ${subscriptionId}`;
  }

  /**
   * Where records do not name the newest event, only the time of the event at the position reveals a log restart:
   * where that position has expired, or is one of a manifest or of a store from before, nothing does.
   */
  get mayRestartLogs(): boolean {
    return this.settings.recordLastEventId;
  }

  /** Only the daily lists reveal the first events of the new log. */
  restartLog(subscriptionId: string, firstNumber: number, announce: boolean): void {
    this.hasRestartedSilently = true;
    this.logs.noteRestart(subscriptionId);
    this.feed.publisher.restartLog(subscriptionId, { firstNumber, announce });
  }

  /** A subscription that was never there, to some of the datasets by id. */
  subscribeToSome(): string {
    this.#subscriptions += 1;
    const subscriptionId = `sub_${this.#subscriptions}`;
    const datasetIds = this.datasetIds.filter(() => this.random.chance(0.6));
    this.feed.publisher.subscribe({ subscriptionId, datasetIds });
    this.logs.installFor(subscriptionId);
    return `${subscriptionId} to ${datasetIds.join(', ')}`;
  }

  /** The subscription is there no more. */
  async end(subscriptionId: string): Promise<string> {
    this.hasLostTrack = true;
    await this.#noteUnlisted(subscriptionId);
    this.feed.publisher.unsubscribe(subscriptionId);
    this.noteLeavers();
    return subscriptionId;
  }

  /** The dataset left a subscription, or came back to one. */
  noteMove(datasetId: string): void {
    this.unreadMoves.add(datasetId);
    this.movedSinceCopy.add(datasetId);
    this.noteLeavers();
  }

  noteCopied(store: Store): void {
    if (store === 'mirror') this.#suspectsOfCopy = [...this.suspects];
    if (store !== 'checkpoint') return;
    this.movedSinceCopy.clear();
    for (const datasetId of this.unreadMoves) this.movedSinceCopy.add(datasetId);
  }

  /** What was altered by hand before the mirror was copied is back with the copy. */
  noteRestored(store: Store): void {
    this.noteLost(store);
    if (store === 'mirror') for (const datasetId of this.#suspectsOfCopy) this.suspects.add(datasetId);
  }

  /** A position is lost, and a manifest that lags is what is believed then. */
  noteLostTrack(): void {
    this.hasLostTrack = true;
    if (this.isFrozen) for (const datasetId of this.datasetIds) this.mayGoBack.add(datasetId);
  }

  /** What the store knew is lost. What neither store knows any more may go with it. */
  noteLost(store: Store): void {
    this.noteLostTrack();
    // What asked for another content than a frozen manifest lists is lost, and without digests nothing else shows it.
    if (this.isFrozen && !this.settings.sha256) this.thaw();
    this.#lost.add(store);
    if (this.#lost.size < 2) return;
    this.#unlisted.clear();
    this.noteLeavers();
  }

  /** An operator has forgotten it. */
  forget(subscriptionId: string): void {
    this.formerSubscriptionIds.add(subscriptionId);
    this.#unlisted.delete(subscriptionId);
    this.noteLeavers();
  }

  /** The service lists the subscription no more, until it is calm. */
  async hide(subscriptionId: string): Promise<string> {
    this.hasLostTrack = true;
    await this.#noteUnlisted(subscriptionId);
    this.hidden = subscriptionId;
    const listed = (record: unknown): boolean => Object(record).id !== subscriptionId;
    this.feed.faults.add({
      match: { operation: 'subscriptions', times: 'always' },
      act: {
        kind: 'rewrite',
        rewrite: (body) => {
          const { subscriptions } = Object(body);
          return Array.isArray(subscriptions)
            ? { ...Object(body), subscriptions: subscriptions.filter(listed) }
            : body;
        },
      },
    });
    this.noteLeavers();
    return subscriptionId;
  }

  /** It is listed again, if it is still there. */
  show(): void {
    if (this.hidden !== null) this.#unlisted.delete(this.hidden);
    this.hidden = null;
    this.noteLeavers();
  }

  /** One that neither store has seen may be gone without being missed, and so may what was added to it unread. */
  async #noteUnlisted(subscriptionId: string): Promise<void> {
    const { checkpoint } = await this.installation.parts();
    const seen = await this.installation.readMirror(async ({ subscriptionIds }) => subscriptionIds);
    const isFollowed = checkpoint.followed().has(subscriptionId);
    if (!isFollowed && seen?.includes(subscriptionId) !== true) return;
    this.#lost.clear();
    const desiredStates = checkpoint.desiredStates();
    const isKnown = (datasetId: string): boolean =>
      desiredStates.get(datasetId)?.members.has(subscriptionId) === true;
    const members = [...this.feed.store.subscription(subscriptionId).members];
    this.#unlisted.set(subscriptionId, isFollowed ? members.filter(isKnown) : members);
  }

  /** Of those that are frozen, one that does not say how far it goes lags no longer than a manifest may. */
  freeze(target?: FreezeTarget): void {
    this.isFrozen = true;
    this.#frozenAt = this.feed.clock.now();
    if (this.hasLostTrack) this.noteLostTrack();
    const word = this.settings.manifestLastEventId ? 'says how far it goes' : 'does not';
    this.counters.add(`seen: a manifest that lags, and ${word}`);
    this.feed.manifest.freeze(target);
  }

  /** The next readings of a list lack something. Two that are ten minutes apart would be believed: it is over before. */
  skip(omission: Omission, reads: number): void {
    this.#skippedAt ??= this.feed.clock.now();
    this.feed.omissions.add(omission, reads);
  }

  #endSkips(durationMs: number): void {
    const skippedMs = this.#skippedAt?.getTime() ?? Number.POSITIVE_INFINITY;
    if (this.feed.clock.now().getTime() + durationMs - skippedMs < LONGEST_SKIP_MS) return;
    this.feed.omissions.clear();
    this.#skippedAt = null;
  }

  /** Time passes, as long as manifests may lag. */
  pass(durationMs: number): void {
    this.#endSkips(durationMs);
    const lagMs = this.feed.clock.now().getTime() + durationMs - this.#frozenAt.getTime();
    if (this.isFrozen && lagMs >= LONGEST_LAG_MS && !this.settings.manifestLastEventId) this.thaw();
    this.feed.clock.advance(durationMs);
  }

  thaw(): void {
    this.isFrozen = false;
    this.feed.manifest.thaw();
  }

  /** Longer than any manifest lags. */
  passMonths(durationMs: number): void {
    this.#endSkips(durationMs);
    this.thaw();
    this.feed.clock.advance(durationMs);
  }

  /** What no subscription has now may leave the mirror, once it knows. */
  noteLeavers(): void {
    const listed = this.datasetIds.filter((datasetId) =>
      this.feed.store.subscriptionsOf(datasetId).some(({ subscriptionId }) => subscriptionId !== this.hidden),
    );
    const members = new Set([...listed, ...[...this.#unlisted.values()].flat()]);
    for (const datasetId of this.datasetIds) if (!members.has(datasetId)) this.mayLeave.add(datasetId);
  }

  /** A second passes, so that timestamps before and after it differ. */
  tick(): void {
    this.feed.clock.advance(TICK_MS);
  }

  publishContent(
    datasetId: string,
    content: Content,
    options: PublishOptions,
    previous: DatasetVersion | null,
  ): string {
    const version = this.feed.publisher.publish(datasetId, content, options);
    this.#keepReused(datasetId, version);
    const from = previous === null ? '' : `v${previous.version}→`;
    return `${datasetId} ${from}v${version.version}, schema ${version.schemaVersion}, ${content.rowCount} rows`;
  }

  /**
   * A manifest of before, under a number that is used again and that no reload announces, cannot be told from a current one: it
   * lags no more.
   */
  #keepReused(datasetId: string, version: DatasetVersion): void {
    const numbers = (this.published.get(datasetId) ?? []).map((known) => known.version);
    if (this.isFrozen && numbers.includes(version.version)) this.thaw();
    this.#keep(datasetId, version);
  }

  #keep(datasetId: string, version: DatasetVersion): void {
    this.published.set(datasetId, [...(this.published.get(datasetId) ?? []), version]);
  }

  #begin(): void {
    const sources = generate(this.seed, this.settings);
    for (const source of sources) {
      const { datasetId, placeId, topic } = source;
      this.#lines.set(datasetId, new TableLine(source));
      this.feed.publisher.addDataset({ datasetId, placeId, topic });
    }
    this.feed.publisher.subscribe({ subscriptionId: FIRST, ...this.#selection(sources) });
    if (this.settings.subscriptions === 2) this.subscribeToSome();
    for (const { datasetId } of sources) this.publish(datasetId);
    this.logs.installFor(FIRST);
  }

  /** Only the log lists members by place, and a log is kept for 90 days. */
  #selection(sources: readonly GeneratedDataset[]): Pick<NewSubscription, 'places' | 'datasetIds'> {
    if (this.settings.manifest === 'dataset') return { datasetIds: this.datasetIds };
    return { places: [...new Set(sources.map(({ placeId }) => placeId))] };
  }
}

function generate(seed: number, { counties, rowsPerDataset, kinds }: Settings): readonly GeneratedDataset[] {
  const sources = generateDatasets({
    seed,
    counties: Math.max(...counties) + 1,
    rowsPerDataset,
    kinds,
    keepsRows: true,
  });
  const places = [...new Set(sources.map(({ placeId }) => placeId))];
  const chosen = counties.map((county) => places[county]);
  return sources.filter(({ placeId }) => chosen.includes(placeId));
}
