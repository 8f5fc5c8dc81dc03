/**
 * Catch-ups one after another, while the service publishes, replaces, withdraws and restarts, and its manifests lag: nothing
 * older is ever taken for the answer to a reload, and once the service is calm the table equals the service's content. The right content
 * is known from a model of the service's past: `test/support/model-history.ts`.
 */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import {
  changedDesiredState,
  type DesiredState,
  type DesiredStateChange,
} from '../../src/model/desired-state.ts';
import type { FeedEvent } from '../../src/model/event.ts';
import { timeOf } from '../../src/model/manifest.ts';
import { type Audited, auditEntries } from '../../src/sync/follow/audit.ts';
import { coalesceEvents } from '../../src/sync/follow/coalesce-events.ts';
import { stepFromManifest } from '../../src/sync/follow/from-manifest.ts';
import { reloadAt } from '../../src/sync/follow/reload-requests.ts';
import { type Course, execute } from '../support/model-course.ts';
import {
  asksForReload,
  eventNumber,
  isReported,
  lastMoveBy,
  type ModelHistory,
  type Move,
  newestEvent,
  type Published,
  publishedAt,
  reportedAt,
  type Shown,
  shownBy,
  stateAfter,
  stateNow,
} from '../support/model-history.ts';
import { HOUR_MS, MINUTE_MS, planInput } from '../support/planning.ts';
import { SEED } from '../support/seed.ts';
import { desired, event, id, NOW, schema, subscription, version } from '../support/sync-values.ts';

const NUM_RUNS = 1_000;
const MAX_PLANS = 60;
/** Catch-ups that a calm service takes: what is absent is noted, confirmed, asked for, and then reflected by time. */
const MAX_CALM_ROUNDS = 4;

/** A step of the service or of an operator. */
type Step = 'publish' | 'replace' | 'withdraw' | 'restart' | 'restart, unreported' | 'resync';

const round = fc.record({
  minutes: fc.constantFrom<number>(1, 4, 10, 16, 61),
  steps: fc.array(
    fc.constantFrom<Step>(
      'publish',
      'publish',
      'replace',
      'withdraw',
      'restart',
      'restart, unreported',
      'resync',
    ),
    { maxLength: 2 },
  ),
  isRecorded: fc.boolean(),
  /** Moves that each manifest lags behind, as far as it may, and as it does not go back. */
  lags: fc.tuple(fc.nat(3), fc.nat(3)),
  /** The list of versions does not show a move of this minute yet. */
  isListStale: fc.boolean(),
  /** This one of two cannot be read: neither its log nor its manifest. */
  unread: fc.constantFrom<readonly string[]>([], [], [], ['sub_1'], ['sub_2']),
});

const services = fc.record({
  subscriptions: fc.constantFrom(['sub_1'], ['sub_1', 'sub_2']),
  /** Subscriptions whose manifests state no watermark. */
  silent: fc.subarray(['sub_1', 'sub_2']),
  /** Each dataset has a manifest of its own, the same for all subscriptions. */
  isByDataset: fc.boolean(),
  hasDigest: fc.boolean(),
  rounds: fc.array(round, { minLength: 1, maxLength: 12 }),
});

type Made<Maker> = Maker extends fc.Arbitrary<infer Value> ? Value : never;
type Service = Made<typeof services>;

/** How a catch-up finds the service. */
type Reading = Pick<Made<typeof round>, 'lags' | 'isListStale' | 'unread'> & {
  /** The audit of the day: every list of versions is read. */
  readonly isRefreshDue: boolean;
};

const CALM: Reading = { lags: [0, 0], isListStale: false, unread: [], isRefreshDue: true };

/** A service and a mirror of one dataset of it. */
class World {
  readonly #service: Service;
  readonly #published: Published[] = [];
  readonly #moves: Move[] = [];
  /** The last move that each manifest shows. */
  readonly #shown = new Map<string, number>();
  /** The last move of which the log of each was read. */
  readonly #read = new Map<string, number>();
  /** For logs that were started without a number: the time up to which the first manifest reflects events. */
  readonly #coveredUntil = new Map<string, Date>();
  readonly kinds = new Set<string>();
  #now = NOW;
  #listLag = 0;
  #desired: DesiredState;
  #course: Pick<Course, 'input' | 'rows'>;

  constructor(service: Service) {
    this.#service = service;
    this.#desired = desired({ members: new Map() });
    this.#course = { input: planInput({ desired: this.#desired }), rows: null };
    this.#publish(1, null, true);
  }

  get model(): ModelHistory {
    return {
      published: this.#published,
      moves: this.#moves,
      schemas: [schema('parcels')],
      badContents: new Set(),
      listLag: this.#listLag,
    };
  }

  pass(durationMs: number): void {
    this.#now = new Date(this.#now.getTime() + durationMs);
  }

  do(step: Step, isRecorded: boolean): void {
    this.pass(1_000);
    const { places, content } = stateNow(this.model);
    const at = this.#now;
    switch (step) {
      case 'publish':
        this.#publish(publishedAt(content.place, this.model).record.version + 1, content.place, isRecorded);
        return;
      case 'replace':
        this.#moves.push({ kind: 'replace', at });
        return;
      case 'withdraw':
        if (places.length > 1) this.#moves.push({ kind: 'withdraw', at });
        return;
      case 'restart':
      case 'restart, unreported':
        this.#add(1, null, true);
        this.#moves.push({
          kind: 'restart',
          at,
          place: this.#published.length - 1,
          isReported: step === 'restart',
        });
        return;
      case 'resync':
        this.#desired = { ...this.#desired, resyncNumber: this.#desired.resyncNumber + 1 };
        return;
    }
  }

  #publish(number: number, follows: number | null, isRecorded: boolean): void {
    this.#add(number, follows, isRecorded);
    this.#moves.push({ kind: 'publish', at: this.#now, place: this.#published.length - 1 });
  }

  /** A number that returns has another row count: otherwise nothing distinguishes the snapshots of before and after. */
  #add(number: number, follows: number | null, isRecorded: boolean): void {
    const record = version('parcels', number, {
      previousVersion: follows === null ? null : number - 1,
      publishedAt: this.#now,
      rowCount: 1_000 + this.#published.length,
    });
    const rest = { isListed: true, isBad: false, schema: schema('parcels'), keepsColumns: true };
    this.#published.push({ record, follows, isRecorded, ...rest });
  }

  /** Reads the logs to their heads, then the manifests, compares, and reconciles. */
  catchUp({ lags, isListStale, unread, isRefreshDue }: Reading): Course {
    this.pass(1_000);
    const isNew = lastMoveBy(new Date(this.#now.getTime() - MINUTE_MS), this.model) < this.#moves.length - 1;
    this.#listLag = isListStale && isNew && this.#moves.length > 1 ? 1 : 0;
    const { subscriptions } = this.#service;
    const read = subscriptions.filter((one) => subscriptions.length === 1 || !unread.includes(one));
    for (const one of read) if (!this.#read.has(one)) this.#begin(this.#show(one, lags));
    for (const one of read) this.#follow(one);
    const shown = read.map((one) => this.#show(one, lags));
    for (const one of shown) this.#audit(one);
    if (isRefreshDue)
      this.#desired = { ...this.#desired, refreshesRequested: this.#desired.refreshesRequested + 1 };
    const { input, rows } = this.#course;
    const start = {
      input: { ...input, desired: this.#desired, inapplicable: new Map(), now: this.#now },
      rows,
      shown,
    };
    const course = execute(start, this.model, MAX_PLANS, { areOffersUnread: isListStale });
    for (const { kind } of course.steps) this.kinds.add(kind);
    this.#course = course;
    this.#desired = course.input.desired;
    if (course.end === 'keep' && course.input.metadata !== null) this.#noteRefreshed(course);
    return course;
  }

  /** Versions that may be withdrawn are read again. */
  #noteRefreshed({ input: { absentSince } }: Course): void {
    if (absentSince.size > 0) return;
    this.#desired = { ...this.#desired, refreshesDone: this.#desired.refreshesRequested };
  }

  #show(subscriptionId: string, lags: Reading['lags']): Shown {
    const { isByDataset, silent, hasDigest } = this.#service;
    const key = isByDataset ? 'all' : subscriptionId;
    const lag = lags[isByDataset || subscriptionId === 'sub_1' ? 0 : 1];
    const shown = shownBy(
      {
        subscriptionId,
        move: Math.max(this.#shown.get(key) ?? 0, this.#moves.length - 1 - lag),
        readAt: this.#now,
        isByTime: isByDataset || silent.includes(subscriptionId),
        hasDigest,
      },
      this.model,
    );
    this.#shown.set(key, shown.move);
    return isByDataset ? { ...shown, listedEntry: { ...shown.listedEntry, through: null } } : shown;
  }

  /** The position is that of the manifest; where this says none, the log is read from its start. */
  #begin({ listedEntry, move }: Shown): void {
    const { subscriptionId, watermark, entry } = listedEntry;
    const last = this.#moves.length - 1;
    const lastEventId = id(newestEvent(subscriptionId, last, this.model));
    const watermarkCovers = watermark.kind === 'number' ? id(watermark.through) : null;
    const reported = this.#moves.findLast((one) => isReported(one));
    const { position, changes } = stepFromManifest(
      {
        record: subscription({ id: subscriptionId, lastEventId }),
        recordReadAt: this.#now,
        watermarkCovers,
        coveredUntil: watermark.kind === 'time' ? watermark.through : null,
        entries: [entry],
        members: ['parcels'],
        membersReflect: this.#service.isByDataset ? lastEventId : watermarkCovers,
        newestCreatedAt:
          watermarkCovers === null && reported !== undefined
            ? reportedAt(subscriptionId, reported)
            : timeOf(this.#now),
      },
      { followed: null, isNewLog: false, ...this.#audited },
    );
    this.#change(subscriptionId, changes);
    if (position.coveredUntil !== null) this.#coveredUntil.set(subscriptionId, position.coveredUntil);
    this.#read.set(subscriptionId, watermarkCovers === null ? -1 : move);
  }

  #change(subscriptionId: string, changes: readonly DesiredStateChange[]): void {
    for (const change of changes) this.#desired = changedDesiredState(this.#desired, subscriptionId, change);
  }

  get #audited(): Audited {
    const { observed } = this.#course.input;
    const datasets = new Map(observed === null ? [] : [['parcels', observed]]);
    return {
      desiredStates: new Map([['parcels', this.#desired]]),
      observed: { service: null, datasets, progress: null, retired: [] },
    };
  }

  #follow(subscriptionId: string): void {
    const from = present(this.#read.get(subscriptionId), 'the log is followed') + 1;
    const events = this.#moves.flatMap((move, index) =>
      index < from ? [] : this.#eventOf(move, index, subscriptionId),
    );
    this.#read.set(subscriptionId, this.#moves.length - 1);
    const changes = coalesceEvents(events, {
      subscriptionId,
      logNumber: 1,
      readAt: this.#now,
      coveredUntil: this.#coveredUntil.get(subscriptionId) ?? null,
      desiredStateOf: () => this.#desired,
      tableOf: () => this.#course.input.observed,
    });
    this.#change(subscriptionId, changes);
  }

  #eventOf(move: Move, index: number, subscriptionId: string): readonly FeedEvent[] {
    const number = eventNumber(subscriptionId, index);
    const { place } = stateAfter(index, this.model).content;
    const { record } = publishedAt(place, this.model);
    const reported = { createdAt: reportedAt(subscriptionId, move), version: record.version };
    if (move.kind === 'publish') return [event(number, 'dataset.updated', reported)];
    return asksForReload(move)
      ? [event(number, 'dataset.resync_required', { ...reported, version: null })]
      : [];
  }

  #audit({ listedEntry }: Shown): void {
    const { subscriptionId, entry, through } = listedEntry;
    const { observed } = this.#course.input;
    const { changes, reloads } = auditEntries([entry], subscriptionId, through, this.#audited);
    const newest = newestEvent(subscriptionId, this.#moves.length - 1, this.model);
    const timestamp = { subscriptionId, logNumber: 1, newest, readAt: this.#now };
    const asked = reloads.map(() => reloadAt(timestamp, this.#desired, observed));
    this.#change(subscriptionId, [...changes, ...asked]);
  }

  get isRight(): boolean {
    const { place, generation } = stateNow(this.model).content;
    const { rows } = this.#course;
    return rows?.place === place && rows.generation === generation;
  }
}

const still = {
  lags: [0, 0] as [number, number],
  isListStale: false,
  unread: [],
  isRecorded: true,
  minutes: 1,
};

/** Histories that went wrong once. */
const FOUND: [Service][] = [
  [
    // The reloads of a record's members before its newest event were taken for reflected.
    {
      subscriptions: ['sub_1'],
      silent: [],
      isByDataset: true,
      hasDigest: false,
      rounds: [
        { ...still, steps: ['replace', 'publish'], lags: [2, 0] },
        { ...still, steps: [] },
      ],
    },
  ],
  [
    // Content of between two replacements was the answer to the second, while the first was owed from before the load.
    {
      subscriptions: ['sub_1'],
      silent: [],
      isByDataset: false,
      hasDigest: true,
      rounds: [
        { ...still, steps: ['restart', 'replace'], lags: [2, 0] },
        { ...still, steps: [], lags: [1, 0] },
        { ...still, steps: ['replace'], lags: [1, 0] },
        { ...still, steps: [] },
      ],
    },
  ],
];

function worldAfter(service: Service): World {
  const world = new World(service);
  for (const one of service.rounds) {
    world.pass(one.minutes * MINUTE_MS);
    for (const step of one.steps) world.do(step, one.isRecorded);
    world.catchUp({ ...one, isRefreshDue: false });
  }
  return world;
}

it('makes no wrong step while the service moves, and equals the service once it is calm', () => {
  const kinds = new Map<string, number>();
  let calmRounds = 0;
  fc.assert(
    fc.property(services, (service) => {
      const world = worldAfter(service);
      let rounds = 0;
      let end: Course['end'] = 'wait';
      while (rounds < MAX_CALM_ROUNDS && !(world.isRight && end === 'keep')) {
        world.pass(HOUR_MS);
        end = world.catchUp(CALM).end;
        rounds += 1;
      }
      expect([end, world.isRight]).toEqual(['keep', true]);
      calmRounds = Math.max(calmRounds, rounds);
      for (const kind of world.kinds) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    }),
    { seed: SEED, numRuns: NUM_RUNS, examples: FOUND },
  );
  expect(calmRounds).toBeGreaterThan(1);
  for (const kind of ['load', 'apply', 'wait', 'keep', 'ask-reload', 'void-announced']) {
    expect(kinds.get(kind) ?? 0, kind).toBeGreaterThan(NUM_RUNS / 20);
  }
});
