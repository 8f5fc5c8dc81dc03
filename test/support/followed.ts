/**
 * One subscription that is followed: a log with retention and a manifest in memory, a real checkpoint, and the
 * calls that following makes, those of the log with the position they read after (`events evt_9`, `events start`).
 */

import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import type { EventPage } from '../../src/feed/feed.ts';
import { type LogFields, silentLog } from '../../src/lib/log.ts';
import type { DesiredState } from '../../src/model/desired-state.ts';
import { CursorExpiredError } from '../../src/model/errors.ts';
import type { EventId, FeedEvent, UnreadableEvent } from '../../src/model/event.ts';
import type { Subscription } from '../../src/model/records.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { follow } from '../../src/sync/follow/follow.ts';
import type { ListedEntries } from '../../src/sync/manifest-cache.ts';
import { silentProgress } from '../../src/sync/progress.ts';
import { NOON, NOON_CLOCK, openAt, temporaryPath } from './checkpoint-files.ts';
import { ordinaryChoices } from './ordinary-choices.ts';
import { destinationOf, emptyMirror } from './small-destination.ts';
import { asOfItsLog, emptyService, feedOf, type Service } from './small-feed.ts';
import { entry, event, id, subscription } from './sync-values.ts';

export interface Followed {
  readonly service: Service;
  readonly checkpoint: Checkpoint;
  /** What the subscription record says; as newest event it names that of the log where this is newer. */
  record: Subscription;
  /** What the service keeps of the log. */
  log: (FeedEvent | UnreadableEvent)[];
  /** Positions before this one are past retention; so is each of `expired`. */
  keptFrom: bigint;
  readonly expired: Set<bigint>;
  pageSize: number;
  /** The content of the mirror. */
  readonly tables: Map<string, ObservedTable>;
  now: Date;
  readonly calls: string[];
  readonly warnings: string[];
  /** Called before every call is answered, with how many there were of its kind. */
  onCall: (call: string, nth: number) => void;
  /** Follows it once, and gives the calls that this took. */
  follow(): Promise<readonly string[]>;
  /** As `follow`, and gives what the manifest offers. */
  listedEntries(): Promise<ListedEntries>;
  desired(datasetId?: string): DesiredState | undefined;
  cursor(): EventId | null;
  isExpiredCursorReplay(): boolean;
  pass(durationMs: number): void;
}

const CHOICES = ordinaryChoices('/nowhere');

/** `sub_1` contains `parcels` and the others at version 1, as of its newest event evt_100, which its log keeps. */
export async function followed(...others: string[]): Promise<Followed> {
  const datasetIds = ['parcels', ...others];
  const service = emptyService();
  service.members.set('sub_1', datasetIds);
  service.watermarkCovers.set('sub_1', id(100));
  for (const datasetId of datasetIds) service.snapshots.set(datasetId, entry(datasetId, 1));
  const clock = { ...NOON_CLOCK, now: () => made.now };
  const checkpoint = await openAt(temporaryPath('checkpoint.sqlite'), silentLog, clock);
  const feed = feedOf(
    service,
    (call) => called(call),
    () => made.now,
  );
  const called = (call: string): void => {
    made.calls.push(call);
    made.onCall(call, made.calls.filter((one) => one === call).length);
  };
  const warn = (_: LogFields, message: string) => made.warnings.push(message);
  const listed = () => asOfItsLog(made.record, made.log);
  const listedEntries = () =>
    follow(
      { record: listed(), readAt: made.now },
      { service: null, progress: null, datasets: made.tables, retired: [] },
      {
        destination: destinationOf(emptyMirror(), [], () => {}),
        progress: silentProgress,
        choices: CHOICES,
        process: { command: 'once', pid: 1, host: 'here' },
        checkpoint,
        clock,
        log: { ...silentLog, warn },
        feed: {
          ...feed,
          subscriptions: async () => {
            called('subscriptions');
            return { subscriptions: [listed()], readAt: made.now };
          },
          events: async (_, after) => pageOf(made, after, called),
        },
      },
      new AbortController().signal,
    );
  const made: Followed = {
    service,
    checkpoint,
    record: subscription({ datasetIds }),
    log: [event(100, 'dataset.updated', { version: 1 })],
    keptFrom: 0n,
    expired: new Set(),
    pageSize: 10,
    tables: new Map(),
    now: NOON,
    calls: [],
    warnings: [],
    onCall: () => {},
    listedEntries,
    async follow() {
      made.calls.length = 0;
      await listedEntries();
      return [...made.calls];
    },
    desired: (datasetId = 'parcels') => checkpoint.desiredStates().get(datasetId),
    cursor: () => checkpoint.followed().get('sub_1')?.cursor ?? null,
    isExpiredCursorReplay: () => (checkpoint.followed().get('sub_1')?.replayedAt ?? null) !== null,
    pass: (durationMs) => {
      made.now = new Date(made.now.getTime() + durationMs);
    },
  };
  return made;
}

/** The service's own newest event and what its manifest reflects, together. */
export function newestIs(one: Followed, newest: EventId | null): void {
  one.record = { ...one.record, lastEventId: newest };
  if (newest === null) one.service.watermarkCovers.delete('sub_1');
  else one.service.watermarkCovers.set('sub_1', newest);
}

function pageOf(
  { log, keptFrom, expired, pageSize, now }: Followed,
  after: EventId | null,
  called: (call: string) => void,
): EventPage {
  called(`events ${after?.text ?? 'start'}`);
  if (after !== null && (after.number < keptFrom || expired.has(after.number))) {
    throw new CursorExpiredError(`The position ${after.text} is past retention.`, now);
  }
  const kept = log.filter((one) => one.id === null || one.id.number >= keptFrom);
  const following = kept.filter((one) => after === null || one.id === null || one.id.number > after.number);
  return { events: following.slice(0, pageSize), hasMore: following.length > pageSize, readAt: now };
}
