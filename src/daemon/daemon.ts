/**
 * The loop: several times a second it starts whatever is due, polls, audits and work on datasets, and waits for none of them.
 * It detects what an operator decided in another process, interrupts work that makes no progress, and ends when asked to.
 *
 * Invariant: a round in which nothing is due costs next to nothing: no request, no file, a few reads of small tables.
 */

import type { Checkpoint, Suspension } from '../checkpoint/checkpoint.ts';
import type { ObservedState } from '../destination/destination.ts';
import type { Clock } from '../lib/clock.ts';
import { plural } from '../lib/units.ts';
import { type BusyError, type ConfigurationError, InterruptedError } from '../model/errors.ts';
import { markDamaged } from '../sync/damage.ts';
import { datasetState, isBehind } from '../sync/dataset-states.ts';
import { requestsOf } from '../sync/parts.ts';
import type { DatasetResult } from '../sync/result.ts';
import { currentSuspensions } from '../sync/suspensions.ts';
import type { Activity } from './activity.ts';
import { Following } from './following.ts';
import { SuspensionLog } from './incident-log.ts';
import { Behind, ExpiryWarnings } from './liveness.ts';
import type { Notifier } from './notify.ts';

import { Scrubber } from './scrubber.ts';
import { Session, type SessionOptions } from './session.ts';
import type { DaemonEvent, DaemonState, Observed, Observer, Readiness, SubscriptionState } from './state.ts';
import { readinessOf, type StateSummary, stateOfDaemon, summaryAt, type Watched } from './state-of.ts';
import { Upkeep } from './upkeep.ts';
import { Work } from './work.ts';

/** The longest pause between two rounds: a decision of the operator is detected within a second. */
const TICK_MS = 500;
/** How often requests in the destination are polled. */
const REQUESTS_EVERY_MS = 1_000;
/** A loop that made no round for so long was suspended, with its machine or by itself. */
const ASLEEP_MS = 60_000;
/** How long running work may take to end when the daemon ends. */
const DRAIN_LIMIT_MS = 25_000;
/** How long running work may take to end after a standstill. */
const GRACE_MS = 30_000;
/** The service manager gets a status at most this often. */
const SENTENCE_EVERY_MS = 5_000;

interface DaemonOptions extends SessionOptions {
  readonly notifier: Notifier;
  /** The configuration has worked before in this process. */
  readonly isProven?: boolean;
}

export class Daemon implements Observed {
  readonly #session: Session;
  readonly #activity: Activity;
  readonly #following: Following;
  readonly #work: Work;
  readonly #suspensionLog: SuspensionLog;
  readonly #expiryWarnings: ExpiryWarnings;
  readonly #notifier: Notifier;
  readonly #behind: Behind;
  readonly #controlChanges: ControlChangeDetector;
  readonly #upkeep: Upkeep;
  readonly #scrubber: Scrubber;
  readonly #stoodSince = new Map<string, Pick<SubscriptionState, 'condition' | 'conditionSince'>>();
  #end: End | null = null;
  #wake = (): void => {};
  #isAwake = false;
  #wentRoundMs: number;
  /** Operators may have requested something since the requests were last read. */
  #mayHaveRequests = true;
  /** Requests in the destination are not announced: they are polled. */
  #requestsReadMs = Number.NEGATIVE_INFINITY;
  /** A request brought a decision that was not acted on yet. */
  #hasDecided = false;
  /** While the mirror is read again, no work starts. */
  #seeing: Promise<void> | null = null;
  /** The sum of what the mirror and the client of the service count. */
  #progress = 0;
  #saidMs = Number.NEGATIVE_INFINITY;

  constructor({ notifier, isProven = false, ...options }: DaemonOptions) {
    const { parts } = options;
    this.#session = new Session(options);
    this.#activity = this.#session.activity;
    this.#notifier = notifier;
    this.#suspensionLog = new SuspensionLog(parts.log);
    this.#expiryWarnings = new ExpiryWarnings(this.#session);
    this.#behind = new Behind(this.#session);
    this.#controlChanges = new ControlChangeDetector(parts.checkpoint);
    this.#upkeep = new Upkeep(this.#session);
    const onSuspect = (): void => this.#finish({ kind: 'suspect' });
    this.#scrubber = new Scrubber({ session: this.#session, onSuspect });
    this.#wentRoundMs = this.#session.nowMs();
    this.#following = new Following({
      session: this.#session,
      isMirrorIdle: () => this.#work.pool.isIdle,
      onRefused: () => this.#work.pool.halt(new InterruptedError('The workspace is refused.')),
      onMisconfigured: (error) => this.#finish({ kind: 'misconfigured', error }),
      isProven,
      // The next work discards the staged files of datasets that are gone.
      onAudited: () => {
        if (this.#work.pool.isIdle) this.#work.pool.enrollAgain();
      },
      onRead: () => this.#wakeUp(),
    });
    this.#work = new Work({
      session: this.#session,
      isAtHead: (subscriptionId) => this.#following.isAtHead(subscriptionId),
      verdictOf: (desired) => this.#following.verdictOf(desired),
      onSettled: (result) => this.#noteSettled(result),
      onDecided: () => {
        this.#hasDecided = true;
        this.#wakeUp();
      },
    });
  }

  /** Resolves when the daemon and its running work have ended, unless the work is stuck. Never rejects. */
  async run(): Promise<End> {
    this.#notifier.ready();
    const seeing = this.#seeMirror();
    while (this.#end === null) {
      this.#goRound();
      if (this.#end === null) await this.#pause();
    }
    return await this.#drain(this.#end, seeing);
  }

  /** Running work is finished or rolled back, and `run` ends. */
  stop(): void {
    this.#finish({ kind: 'stopped' });
  }

  /** Another instance works on the destination now: this one has to end. */
  supersede(error: BusyError): void {
    this.#finish({ kind: 'superseded', error });
  }

  pollNow(): void {
    this.#following.pollNow();
    this.#wakeUp();
  }

  /** Returns the last known state of the mirror; null: it was not read yet. */
  observed(): ObservedState | null {
    const { mirror } = this.#session;
    return mirror.isRead ? mirror.observed : null;
  }

  /** Resolves when no work is running. */
  async settled(): Promise<void> {
    const afterCommit = this.#session.afterCommit?.ended();
    await Promise.all([
      this.#seeing,
      this.#work.pool.ended(),
      this.#following.ended(),
      this.#upkeep.ended(),
      this.#scrubber.ended(),
      afterCommit,
    ]);
    this.#session.afterCommit?.keepOccurrences();
  }

  /** Notes a request to the service, with the status of its response, if there was one. */
  noteRequest(request: Omit<Extract<DaemonEvent, { kind: 'request' }>, 'kind'>): void {
    this.#session.report({ kind: 'request', ...request });
  }

  /** A part waits on purpose: that is no standstill. */
  notePlannedWait(durationMs: number): void {
    this.#session.planned(durationMs);
  }

  loopSilentMs(): number {
    return this.#session.nowMs() - this.#wentRoundMs;
  }

  state(): DaemonState {
    return stateOfDaemon(this.#watched());
  }

  readiness(): Readiness {
    return readinessOf(this.#watched());
  }

  /** For the live view. */
  summary(): StateSummary {
    const underWay = this.#work.pool.underWay.size;
    return summaryAt(this.#watched(), {
      underWay,
      suspensions: this.#suspensionLog.ongoing + this.#session.parts.checkpoint.candidates().length,
    });
  }

  observe(observer: Observer): () => void {
    return this.#session.observe(observer);
  }

  /** An error of the checkpoint is an incident: the next round tries again. */
  #goRound(): void {
    this.#noteRound(this.#session.nowMs());
    try {
      const stored = this.#session.parts.checkpoint.suspensions();
      this.#suspensionLog.update(stored);
      this.#seeOperator(stored);
      const suspensions = currentSuspensions(this.#session.parts);
      if (suspensions.workspace !== null && this.#hasNoMirror()) {
        this.#finish({ kind: 'refused', suspensions: [suspensions.workspace] });
      }
      this.#mendDamage();
      if (this.#seeing === null) {
        this.#following.begin(suspensions);
        this.#seeRequests();
        this.#work.fill();
      }
      this.#session.afterCommit?.begin(this.#behind.caughtUpAt !== null);
      const isSettled = this.#work.pool.isIdle && this.#following.audits.lastAt !== null;
      this.#behind.update(isSettled);
      this.#upkeep.begin(isSettled);
      this.#scrubber.beginIfDue(isSettled && this.#seeing === null);
      this.#expiryWarnings.give();
      this.#session.resolve('loop');
      this.#scrubber.noteRound(null);
    } catch (error) {
      this.#session.raise('loop', error);
      this.#scrubber.noteRound(error);
    }
    this.#session.incidents.escalate(this.#session.nowMs());
    this.#watch();
    this.#notifyReady();
  }

  /** A process that was suspended for a while did not stand still meanwhile. */
  #noteRound(nowMs: number): void {
    if (nowMs - this.#wentRoundMs > ASLEEP_MS) this.#session.planned(0);
    this.#wentRoundMs = nowMs;
  }

  async #pause(): Promise<void> {
    if (!this.#isAwake) {
      const woken = new AbortController();
      this.#wake = () => woken.abort();
      await this.#session.parts.clock.sleep(TICK_MS, woken.signal).catch(() => {});
      this.#wake = () => {};
    }
    this.#isAwake = false;
  }

  #wakeUp(): void {
    this.#isAwake = true;
    this.#wake();
  }

  #finish(end: End): void {
    this.#end ??= end;
    this.#session.stop(new InterruptedError('The daemon was asked to end.'));
    this.#wakeUp();
  }

  /** Reads the mirror, also where the service may not be asked: a refusal without a mirror ends the run. */
  async #seeMirror(): Promise<void> {
    try {
      await this.#session.mirror.refresh(true);
    } catch (error) {
      this.#following.noteError('mirror', error);
    }
  }

  /** False while the mirror has not been read yet. */
  #hasNoMirror(): boolean {
    return this.#session.mirror.isRead && this.#session.mirror.observed.datasets.size === 0;
  }

  /** Acts on decisions of the operator at once. A mirror that was not read yet waits for the first audit. */
  #seeOperator(suspensions: readonly Suspension[]): void {
    const { parts, mirror } = this.#session;
    const { isStored, isLifted } = this.#controlChanges.detect(suspensions);
    this.#mayHaveRequests ||= isStored;
    if (isStored) this.#scrubber.seeRequest();
    if ((!isStored && !this.#hasDecided) || !mirror.isRead) return;
    const hasDecided = this.#hasDecided;
    this.#hasDecided = false;
    this.#seeing = this.#seeWhatOthersDid().finally(() => {
      this.#seeing = null;
      this.#wakeUp();
    });
    if (!isLifted && !hasDecided && parts.checkpoint.forgotten().length === 0) return;
    this.#work.pool.enrollAgain();
    this.#following.audits.askForAll();
  }

  /** Damaged tables are found once no work is under way, and no work begins meanwhile. What remains is found again, and waits longer. */
  #mendDamage(): void {
    if (!this.#session.hasMetDamage || this.#seeing !== null || !this.#work.pool.isIdle) return;
    this.#session.hasMetDamage = false;
    this.#seeing = markDamaged(this.#session.parts)
      .then(() => this.#seeWhatOthersDid())
      .finally(() => {
        this.#seeing = null;
        this.#wakeUp();
      });
  }

  /** Requests are performed whatever else is suspended or waits: operators wait for the answers. */
  #seeRequests(): void {
    const { parts, mirror } = this.#session;
    const nowMs = this.#session.nowMs();
    const isDue =
      parts.destination.requests !== undefined && nowMs - this.#requestsReadMs >= REQUESTS_EVERY_MS;
    if (!(this.#mayHaveRequests || isDue) || !mirror.isRead) return;
    this.#mayHaveRequests = false;
    this.#requestsReadMs = Number.POSITIVE_INFINITY;
    requestsOf(parts)
      .waitingDatasets(parts.clock.now())
      .then(
        (datasetIds) => {
          this.#session.resolve('requests');
          this.#work.pool.perform(datasetIds);
        },
        (error: unknown) => {
          this.#mayHaveRequests = parts.destination.requests === undefined;
          this.#session.raise('requests', error);
        },
      )
      .finally(() => {
        this.#requestsReadMs = this.#session.nowMs();
      });
  }

  /** A process that wrote to the checkpoint may have changed the mirror, too, while this process was suspended. */
  async #seeWhatOthersDid(): Promise<void> {
    const { engine, workQueue } = this.#session;
    if (this.#work.pool.isIdle) await this.#seeMirror();
    try {
      await engine.reloadMissing();
      await engine.shareResyncs();
      const nowMs = this.#session.nowMs();
      for (const known of engine.datasets()) {
        if (isBehind(known)) workQueue.ask(known.desired.datasetId, nowMs);
      }
    } catch (error) {
      this.#session.raise('loop', error);
    }
  }

  #noteSettled(result: DatasetResult): void {
    const { parts, mirror } = this.#session;
    const known = datasetState(result.datasetId, mirror.observed, parts);
    for (const subscriptionId of known?.desired.members.keys() ?? []) {
      const subscription = this.#following.followedSubscriptions.get(subscriptionId);
      if (subscription !== undefined && result.commits.length > 0)
        subscription.movedMs = this.#session.nowMs();
    }
    if (known === null || !isBehind(known)) this.#behind.forget(result.datasetId);
    this.#wakeUp();
  }

  #watch(): void {
    const { watchdogs, parts } = this.#session;
    const nowMs = this.#session.nowMs();
    const progress = parts.destination.progress() + parts.feed.progress();
    if (progress !== this.#progress) watchdogs.working.moved(nowMs);
    this.#progress = progress;
    const isReadingStill = watchdogs.reading.standsStill(nowMs, !this.#following.isIdle);
    const isWorkingStill = watchdogs.working.standsStill(nowMs, !this.#work.pool.isIdle);
    if (!isReadingStill && !isWorkingStill) return;
    const datasetIds = [...this.#activity.work.keys()];
    this.#session.report({ kind: 'interruption' });
    parts.log.error({ datasetIds }, 'Nothing has moved for minutes: running work is interrupted.');
    this.#work.giveUp(new InterruptedError('The work made no progress for minutes and was interrupted.'));
    this.#finish({ kind: 'standstill' });
  }

  /** Feeds the watchdog of the service manager, with progress and planned idleness, but not during a standstill. */
  #notifyReady(): void {
    const nowMs = this.#session.nowMs();
    const { reading, working } = this.#session.watchdogs;
    if (nowMs - Math.min(reading.movedMs, working.movedMs) < TICK_MS * 4) this.#notifier.progress();
    if (nowMs - this.#saidMs < SENTENCE_EVERY_MS) return;
    this.#saidMs = nowMs;
    this.#notifier.status(statusSentence(this.#watched()));
  }

  async #drain(end: End, seeing: Promise<void>): Promise<End> {
    const ending = Promise.all([seeing, this.settled()]);
    const limitMs = end.kind === 'standstill' ? GRACE_MS : DRAIN_LIMIT_MS;
    const isInTime = await endsInTime(this.#session.parts.clock, ending, limitMs);
    return isInTime ? end : { kind: 'stuck' };
  }

  #watched(): Watched {
    return {
      session: this.#session,
      following: this.#following,
      activity: this.#activity,
      phase: this.#phase(),
      caughtUpAt: this.#behind.caughtUpAt,
      loopSilentMs: this.loopSilentMs(),
      behindSince: this.#behind.since,
      stoodSince: this.#stoodSince,
    };
  }

  #phase(): DaemonState['phase'] {
    if (this.#end !== null) return 'draining';
    return this.#following.audits.lastAt === null ? 'starting' : 'following';
  }
}

export type End =
  /** `stop` was called. */
  | { readonly kind: 'stopped' }
  /** Running work did not end in time and may never end. */
  | { readonly kind: 'stuck' }
  /** The watchdog interrupted running work, and that has ended: the daemon may restart. */
  | { readonly kind: 'standstill' }
  /** A store is damaged in a way that only opening it again mends. */
  | { readonly kind: 'suspect' }
  /** The workspace is refused and there is no mirror to keep: an operator must act first. */
  | { readonly kind: 'refused'; readonly suspensions: readonly Suspension[] }
  | { readonly kind: 'misconfigured'; readonly error: ConfigurationError }
  /** Another instance has taken over the destination. */
  | { readonly kind: 'superseded'; readonly error: BusyError };

/** Resolves to false where `ending` did not resolve within `limitMs`. `ending` never rejects. */
async function endsInTime(clock: Clock, ending: Promise<unknown>, limitMs: number): Promise<boolean> {
  const done = new AbortController();
  const tooLate = clock.sleep(limitMs, done.signal).then(
    () => false,
    () => true,
  );
  const inTime = ending.then(() => true);
  try {
    return await Promise.race([inTime, tooLate]);
  } finally {
    done.abort(new InterruptedError('It ended in time.'));
  }
}

function statusSentence({ session, following, activity, phase }: Watched): string {
  const tables = plural(session.mirror.observed.datasets.size, 'table');
  if (phase === 'draining') return 'Ending what is under way.';
  const working = activity.work.size;
  if (working > 0) return `Working on ${plural(working, 'dataset')}; ${tables}.`;
  if (phase === 'starting') return 'Asking the service what there is.';
  const failing = [...following.followedSubscriptions.values()].filter(({ isFailing }) => isFailing).length;
  if (failing > 0) return `${plural(failing, 'subscription')} cannot be read now; ${tables}.`;
  const waiting = session.workQueue.entries.size;
  return waiting > 0
    ? `${plural(waiting, 'dataset')} ${waiting === 1 ? 'waits' : 'wait'}; ${tables}.`
    : `Idle; ${tables}.`;
}

interface Seen {
  /** Another process has written to the checkpoint. */
  readonly isStored: boolean;
  /** A suspension was lifted: its scope may be asked for again. */
  readonly isLifted: boolean;
}

/** Detects decisions of the operator that another process has stored. */
class ControlChangeDetector {
  readonly #checkpoint: Checkpoint;
  #othersStored: number;
  /** As JSON, so that scopes can be compared. */
  #suspendedScopes: ReadonlySet<string> = new Set();

  constructor(checkpoint: Checkpoint) {
    this.#checkpoint = checkpoint;
    this.#othersStored = checkpoint.othersStored();
  }

  /** Returns what has changed since the last call. `suspensions`: the ongoing ones. */
  detect(suspensions: readonly Suspension[]): Seen {
    const othersStored = this.#checkpoint.othersStored();
    const isStored = othersStored !== this.#othersStored;
    this.#othersStored = othersStored;
    const ongoing = new Set(suspensions.map(({ refusal: { scope } }) => JSON.stringify(scope)));
    const isLifted = [...this.#suspendedScopes].some((scope) => !ongoing.has(scope));
    this.#suspendedScopes = ongoing;
    return { isStored, isLifted: isStored && isLifted };
  }
}
