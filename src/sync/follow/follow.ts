/**
 * Brings the desired state of a subscription up to its log and its manifest. The manifest is read after the log, so it
 * can satisfy whatever the log asks for. The record is read after the manifest, so it exposes a manifest of a log that
 * was restarted.
 */

import type { Followed } from '../../checkpoint/checkpoint.ts';
import type { ObservedState } from '../../destination/destination.ts';
import type { SubscriptionList } from '../../feed/feed.ts';
import { present } from '../../lib/assert.ts';
import type { AbsenceSubject } from '../../model/absence.ts';
import { type DesiredStateChange, emptyDesiredState, type FollowStep } from '../../model/desired-state.ts';
import { type RefusalError, ServiceUnavailableError } from '../../model/errors.ts';
import { type EventId, laterEvent } from '../../model/event.ts';
import { watermarkOf } from '../../model/manifest.ts';
import {
  isOfOldLog,
  type ListedEntries,
  readEntries,
  readingOfEntries,
  readingOfManifest,
  readManifest,
} from '../manifest-cache.ts';
import type { Parts } from '../parts.ts';
import { isRefreshPending } from '../plan/need.ts';
import {
  type Audited,
  auditEntries,
  auditMembers,
  type Findings,
  isCompleteRecord,
  isListDue,
  noteAbsences,
  requestReloads,
  stepAt,
} from './audit.ts';
import { askable, type Listed, readable, readSource, stepFromManifest } from './from-manifest.ts';
import {
  type AtPosition,
  eventAtPosition,
  isAnyLogDoubted,
  isRefusedPosition,
  lacksKnownEvents,
  readFromStart,
  together,
} from './log-restart.ts';
import { followLog, readLog } from './read-log.ts';
import { isReadUpTo, reloadAt } from './reload-requests.ts';

/** Returns the entries of the manifest. Resolves only where the log was read to its head. */
export async function follow(
  listed: Listed,
  observed: ObservedState,
  parts: Parts,
  signal: AbortSignal,
): Promise<ListedEntries> {
  return await new Follower(listed, observed, parts, signal).follow();
}

class Follower {
  readonly #id: string;
  readonly #observed: ObservedState;
  readonly #parts: Parts;
  readonly #signal: AbortSignal;
  /** The subscription as it was listed last. */
  #listed: Listed;
  /** The log was read to its head. */
  #isLogRead = false;
  #isListedAfterLog = false;
  #isNewLogTaken = false;
  /** The event that the log has at the position, as far as it was read. */
  #there: AtPosition = 'unknown';
  /**
   * The state of the subscription when the event at its position was found gone, before the log was read further; null:
   * the event was not gone.
   */
  #gone: Followed | null = null;

  constructor(listed: Listed, observed: ObservedState, parts: Parts, signal: AbortSignal) {
    this.#id = listed.record.id;
    this.#listed = listed;
    this.#observed = observed;
    this.#parts = parts;
    this.#signal = signal;
  }

  /** Reads the log to its end. The event at the position is read before anything moves the position. */
  async follow(): Promise<ListedEntries> {
    const followed = this.#followed();
    this.#there = await this.#eventAtPosition();
    this.#gone = this.#there === 'gone' ? followed : null;
    if (this.#there === 'other') await this.#takeNewLog();
    await this.#followLog().catch((error: unknown) => this.#followRefused(error));
    if (this.#there === 'other' && !this.#isNewLogTaken) {
      await this.#takeNewLog();
      await this.#followLog();
    }
    const listedEntries = await this.#audit();
    if (!(await this.#isLogGone()) && !(await this.#isLogReplaced())) return listedEntries;
    await this.#takeNewLog();
    await this.#followLog();
    return await this.#audit();
  }

  async #takeNewLog(): Promise<void> {
    this.#parts.log.warn(
      { subscription: this.#id },
      'The service has restarted the log of the subscription: starting from the manifest.',
    );
    this.#parts.checkpoint.commitFollowStep(await this.#startOver(true));
  }

  async #followLog(): Promise<void> {
    const { record, readAt } = this.#listed;
    const there = await followLog(
      {
        subscription: record,
        recordReadAt: readAt,
        tableOf: (datasetId) => this.#observed.datasets.get(datasetId) ?? null,
        startOver: () => this.#startOver(false),
      },
      this.#parts,
      this.#signal,
    );
    this.#there = together(this.#there, there);
    this.#isLogRead = true;
  }

  /**
   * Handles a position that is refused although the log can be read: the position may belong to an earlier log.
   * @throws the error that prevents following
   */
  async #followRefused(error: unknown): Promise<void> {
    const followed = this.#followed();
    if (!isRefusedPosition(error) || followed?.cursor == null || this.#isNewLogTaken) throw error;
    const there = await readFromStart(followed, this.#parts, this.#signal);
    if (there === null) throw error;
    this.#there = together(this.#there, there);
    // Nothing more can be read of the log, so later listings are compared with everything that was read.
    this.#isLogRead = true;
    if (there !== 'other' && !(await this.#isLogGone())) {
      throw isAnyLogDoubted([this.#id], this.#parts) ? mayBeRestarted(followed.cursor, error) : error;
    }
    await this.#takeNewLog();
    await this.#followLog();
  }

  #audited(): Audited {
    return { desiredStates: this.#parts.checkpoint.desiredStates(), observed: this.#observed };
  }

  async #audit(): Promise<ListedEntries> {
    const isByDataset = this.#parts.feed.manifestShape() === 'dataset';
    const listedEntries = await (isByDataset ? this.#auditEntries() : this.#auditManifest());
    this.#requestDailyLists();
    return listedEntries;
  }

  #requestDailyLists(): void {
    const { checkpoint } = this.#parts;
    const { readAt } = this.#listed;
    const before = present(this.#followed(), 'a log that was read is followed').auditedAt;
    const due = [...checkpoint.desiredStates().values()].filter(
      (desired) =>
        desired.members.has(this.#id) &&
        this.#observed.datasets.has(desired.datasetId) &&
        !isRefreshPending(desired) &&
        isListDue(desired.datasetId, before, readAt),
    );
    requestReloads(
      this.#id,
      due.map(({ datasetId }) => ({ kind: 'refresh', datasetId })),
      this.#parts,
    );
    checkpoint.noteAudited(this.#id, readAt);
  }

  async #auditManifest(): Promise<ListedEntries> {
    const reading = await readManifest(this.#id, true, this.#parts, this.#signal);
    this.#noteListed(reading.listedAfter);
    if (!isOfOldLog(reading)) {
      const { manifest, watermark } = reading;
      const { readAt, datasets } = manifest;
      const datasetIds = datasets.map(({ datasetId }) => datasetId);
      await this.#settle(
        readAt,
        auditMembers(
          { subscriptionId: this.#id, watermark, readAt, datasetIds, isComplete: true },
          this.#audited(),
        ),
        () => auditEntries(datasets, this.#id, this.#id, this.#audited()),
      );
    }
    return readingOfManifest(reading, this.#parts);
  }

  /**
   * Audits the manifest entries. Where each dataset has a manifest of its own, no manifest lists members: the members come from the
   * subscription and its log.
   */
  async #auditEntries(): Promise<ListedEntries> {
    const { checkpoint, feed, choices } = this.#parts;
    const { record, readAt } = this.#listed;
    const { lastEventId, datasetIds } = record;
    const isComplete = isCompleteRecord(record);
    const watermark = watermarkOf({ lastEventId, readAt, manifestLagMs: choices.manifestLagMs });
    const listing = { subscriptionId: this.#id, watermark, readAt, datasetIds, isComplete };
    await this.#settle(readAt, auditMembers(listing, this.#audited()), () => ({ changes: [], reloads: [] }));
    const members = [...checkpoint.desiredStates().values()]
      .filter(({ members: of }) => of.has(this.#id))
      .map(({ datasetId }) => datasetId);
    if (!isComplete) this.#reportIncomplete(members.length);
    const read = await readEntries(feed, askable(members, this.#parts), this.#signal);
    await this.#settle(readAt, { changes: [], reloads: [], absent: [], present: [] }, () =>
      auditEntries(readable(read), this.#id, null, this.#audited()),
    );
    return readingOfEntries(this.#id, read, this.#parts);
  }

  /** Members come first: a dataset that a listing brings back is compared with the mirror as a member. */
  async #settle(
    readAt: Date,
    { changes, reloads, absent, present: shown }: Findings,
    entries: () => Pick<Findings, 'changes' | 'reloads'>,
  ): Promise<void> {
    const isOver = [...shown, ...this.#expectedNoMore()];
    const gone = noteAbsences(absent, isOver, readAt, this.#parts).flatMap((subject) =>
      subject.kind === 'member' ? [subject.datasetId] : [],
    );
    const leaving = gone.map(
      (datasetId): DesiredStateChange => ({
        kind: 'no-member',
        datasetId,
        eventNumber: this.#newestAnnouncedOf(datasetId),
        at: readAt,
        reason: 'not listed any more',
      }),
    );
    requestReloads(this.#id, [...changes, ...leaving], this.#parts);
    const found = entries();
    requestReloads(this.#id, found.changes, this.#parts);
    await this.#askReloads([...new Set([...reloads, ...found.reloads])]);
  }

  /** A change that two reads confirm stands at the newest event that was read, or that a listing of the member covered. */
  #newestAnnouncedOf(datasetId: string): bigint | null {
    const read = this.#followed()?.cursor?.number ?? null;
    const reflected = this.#parts.checkpoint.desired(datasetId)?.members.get(this.#id)?.eventNumber ?? null;
    if (read === null || reflected === null) return read ?? reflected;
    return read > reflected ? read : reflected;
  }

  /** Members that were absent, and that an event has removed since. A dataset that only a record named is judged elsewhere. */
  #expectedNoMore(): readonly AbsenceSubject[] {
    const { checkpoint } = this.#parts;
    const mentioned = checkpoint.mentions().filter(({ subscriptionId }) => subscriptionId === this.#id);
    const isExpected = (datasetId: string): boolean =>
      checkpoint.desired(datasetId)?.members.has(this.#id) === true ||
      mentioned.some((mention) => mention.datasetId === datasetId);
    return checkpoint
      .absences()
      .map(({ subject }) => subject)
      .filter((subject) => subject.kind === 'member' && subject.subscriptionId === this.#id)
      .filter((subject) => 'datasetId' in subject && !isExpected(subject.datasetId));
  }

  async #askReloads(datasetIds: readonly string[]): Promise<void> {
    if (datasetIds.length === 0) return;
    const { checkpoint } = this.#parts;
    const { record, readAt } = this.#listed;
    // Reading the log to its head once more gives the newest event.
    if (!isReadUpTo(record, this.#followed()?.cursor ?? null)) {
      const tableOf = (datasetId: string) => this.#observed.datasets.get(datasetId) ?? null;
      await readLog(record, tableOf, this.#parts, this.#signal);
    }
    const { logNumber, cursor } = present(this.#followed(), 'a log that was read is followed');
    const newest = laterEvent(record.lastEventId, cursor)?.number ?? null;
    const timestamp = { subscriptionId: this.#id, logNumber, newest, readAt };
    const reloads = datasetIds.map((datasetId) =>
      reloadAt(
        timestamp,
        checkpoint.desired(datasetId) ?? emptyDesiredState(datasetId),
        this.#observed.datasets.get(datasetId) ?? null,
      ),
    );
    requestReloads(this.#id, reloads, this.#parts);
  }

  /** Learns and stores when the event at the position was created, where the position came from a manifest. */
  async #eventAtPosition(): Promise<AtPosition> {
    const { checkpoint } = this.#parts;
    const followed = this.#followed();
    if (followed === null) return 'unknown';
    const { readAt } = this.#listed;
    const { there, createdAt } = await eventAtPosition(followed, readAt, this.#parts, this.#signal);
    if (there === 'same' && createdAt !== null && followed.cursorCreatedAt === null) {
      checkpoint.commitFollowStep(stepAt({ ...followed, cursorCreatedAt: createdAt }, []));
    }
    return there;
  }

  /**
   * A log that has just been restarted is not restarted again. A record from before the log was read may name an older
   * event, so only a later record counts. A new log that has passed the position need not have an event of that number.
   */
  async #isLogGone(): Promise<boolean> {
    const { checkpoint, feed } = this.#parts;
    const followed = present(this.#followed(), 'a log that was read is followed');
    const isStated = this.#listed.record.lastEventId !== null;
    if (isStated && !followed.statesLastEvent) checkpoint.noteStatedLastEvent(this.#id);
    const isLacking = (): boolean | null => {
      const { record } = this.#listed;
      if (this.#isNewLogTaken) return false;
      if (lacksKnownEvents(record, followed, checkpoint.desiredStates(), this.#observed)) return true;
      if (followed.cursor === null) return false;
      if (record.lastEventId !== null) return this.#gone?.cursor?.number === followed.cursor.number;
      return this.#there === 'unknown' ? null : this.#there === 'gone';
    };
    if (isLacking() === true && !this.#isListedAfterLog) {
      this.#noteListed(await feed.subscriptions(this.#signal));
      if (!this.#isListedAfterLog) return false;
    }
    const subject = { kind: 'log', subscriptionId: this.#id } as const;
    const isAbsent = isLacking();
    const absent = isAbsent === true ? [subject] : [];
    const shown = isAbsent === false ? [subject] : [];
    return noteAbsences(absent, shown, this.#listed.readAt, this.#parts).length > 0;
  }

  /**
   * Returns whether the event at the position was gone, and the record names an event as newest that was read after that: a
   * restarted log may have passed the position meanwhile, and have another event there.
   */
  async #isLogReplaced(): Promise<boolean> {
    const { record, readAt } = this.#listed;
    const gone = this.#gone;
    if (gone === null || this.#isNewLogTaken || record.lastEventId === null) return false;
    if (lacksKnownEvents(record, gone, this.#parts.checkpoint.desiredStates(), this.#observed)) return false;
    const { there } = await eventAtPosition(gone, readAt, this.#parts, this.#signal);
    return there === 'other';
  }

  #followed(): Followed | null {
    return this.#parts.checkpoint.followed().get(this.#id) ?? null;
  }

  async #startOver(isNewLog: boolean): Promise<FollowStep> {
    const { source, listedAfter } = await readSource(this.#listed, this.#observed, this.#parts, this.#signal);
    this.#noteListed(listedAfter);
    this.#isNewLogTaken ||= isNewLog;
    return stepFromManifest(source, { followed: this.#followed(), isNewLog, ...this.#audited() });
  }

  #noteListed(list: SubscriptionList | null): void {
    const record = list?.subscriptions.find(({ id }) => id === this.#id);
    if (list === null || record === undefined) return;
    this.#listed = { record, readAt: list.readAt };
    this.#isListedAfterLog = this.#isLogRead;
  }

  #reportIncomplete(members: number): void {
    const { datasetCount } = this.#listed.record;
    if (datasetCount === null || datasetCount === members) return;
    this.#parts.log.warn(
      { subscription: this.#id, datasetCount, members },
      'The subscription is incomplete: the service counts other datasets than it lists and its log has added.',
    );
  }
}

function mayBeRestarted({ text }: EventId, { refusal }: RefusalError): ServiceUnavailableError {
  const { subscriptionId } = { subscriptionId: '', ...refusal.scope };
  return new ServiceUnavailableError(
    `The log of subscription ${subscriptionId} refuses the position ${text} (${refusal.code}): the service may have begun it anew.`,
    {
      hint: 'That is believed once it is seen again ten minutes later; everything is then taken from the manifest.',
    },
  );
}
