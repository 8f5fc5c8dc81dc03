/**
 * Closes the difference between what is wanted of one dataset and what the destination has: plan one step, carry it
 * out, plan again with what it has changed or taught, until nothing is left to do now. A dataset's trouble is its own:
 * it is recorded, told, and holds up no other.
 */

import type { Followed } from '../checkpoint/checkpoint.ts';
import type { HeldDataset } from '../destination/destination.ts';
import { assert, present, unreachable } from '../lib/assert.ts';
import { DataError, UnknownColumnsError } from '../model/errors.ts';
import { failureOf, toRemember } from './failures.ts';
import { onlyTold, wantUnasked } from './follow/want-unasked.ts';
import type { OfferBook } from './offer-book.ts';
import type { Parts } from './parts.ts';
import { unusableContentOf } from './plan/content.ts';
import { type History, readHistory } from './plan/history.ts';
import { asksTheSame, owesLook, owesResync, pendingReloads } from './plan/need.ts';
import { plan } from './plan/plan.ts';
import type { RetirementVerdict } from './plan/retirement.ts';
import type { Known } from './plan/state.ts';
import type { Plan, ReloadChange, WaitReason } from './plan/step.ts';
import type { Commit, DatasetResult, Ending } from './result.ts';
import { contentAtFault, type Work } from './work/carry-out.ts';
import { noteChanges, noteLoad, noteRetirement, noteUnusable } from './work/journal.ts';
import type { WorkOutcome } from './work/work.ts';
import type { Workshop } from './work/workshop.ts';

/** Steps of one dataset in one go. All but the overtaken ones get on, so this is far more than any needs. */
const MAX_PLANS = 100;
/** How often a dataset is planned anew because its content changed while it was downloaded or committed. */
const MAX_OVERTAKEN = 4;

export interface Reconciliation {
  readonly parts: Parts;
  readonly workshop: Workshop;
  readonly signal: AbortSignal;
  readonly bookFor: (datasetId: string) => OfferBook;
  /** Whether the log of a subscription was just read to its head. */
  readonly isAtHead: (subscriptionId: string) => boolean;
  /** The dataset as both stores know it now, where that may have changed while it was worked on. */
  readonly lookAgain: (known: Known) => Known;
  /** Whether the table of a dataset that no subscription holds may go. */
  readonly verdictOf: (datasetId: string) => RetirementVerdict;
  /** Writes down trouble, sorted by what it belongs to. Never throws. */
  readonly record: (error: unknown, known: Known) => Ending;
}

/** Never throws. */
export function reconcile(known: Known, run: Reconciliation): Promise<DatasetResult> {
  return new Reconciler(known, run).reconcile();
}

/** One dataset on its way to where it should be. */
class Reconciler {
  readonly #run: Reconciliation;
  readonly #datasetId: string;
  readonly #offers: OfferBook;
  #known: Known;
  /** Null: to be read, or to be read again. */
  #history: History | null = null;
  /** Versions whose changes cannot be used, with why. */
  readonly #unusable = new Map<number, string>();
  readonly #commits: Commit[] = [];
  #overtaken = 0;
  #isSchemaReadAgain = false;

  constructor(known: Known, run: Reconciliation) {
    this.#run = run;
    this.#known = known;
    this.#datasetId = known.want.datasetId;
    this.#offers = run.bookFor(this.#datasetId);
  }

  async reconcile(): Promise<DatasetResult> {
    const record = (error: unknown): Ending => this.#run.record(error, this.#known);
    const ended = await this.#untilNothingIsLeft().catch(record);
    const ending = await this.#remember(ended).catch(record);
    return { datasetId: this.#datasetId, commits: this.#commits, ...ending };
  }

  async #untilNothingIsLeft(): Promise<Ending> {
    for (let plans = 0; plans < MAX_PLANS; plans++) {
      const ending = await this.#take(this.#next());
      if (ending !== null) return ending;
      if (this.#overtaken === MAX_OVERTAKEN) throw changesTooFast(this.#datasetId);
    }
    return { kind: 'waiting', why: 'there is more to do than one catch-up does; the next goes on' };
  }

  #next(): Plan {
    const { parts, verdictOf } = this.#run;
    this.#lookAgain();
    return plan({
      ...this.#known,
      offers: this.#offers.of(this.#known.want),
      cursors: cursorsOf(parts.checkpoint.followed()),
      history: this.#history,
      unusable: this.#unusable,
      retirement: verdictOf(this.#datasetId),
      schemaChanges: parts.choices.schemaChanges,
      now: parts.clock.now(),
    });
  }

  /** What was read before something else was wanted may not know of it yet. */
  #lookAgain(): void {
    const known = this.#run.lookAgain(this.#known);
    if (!asksTheSame(known.want, this.#known.want)) {
      this.#history = null;
      this.#offers.renew();
    }
    this.#known = known;
  }

  /** Null: plan again. */
  async #take(step: Plan): Promise<Ending | null> {
    const { parts, signal } = this.#run;
    switch (step.kind) {
      case 'read-history':
        this.#history = await readHistory(parts.feed, this.#datasetId, step.newerThan, signal);
        return null;
      case 'read-offers':
        await this.#offers.read(this.#known.want, signal);
        return null;
      case 'want-reload':
        return this.#wantReload(step.reloads);
      case 'load':
      case 'apply':
      case 'retire':
        return this.#work(step);
      case 'keep':
        return this.#keep();
      case 'wait':
        return { kind: 'waiting', why: WAITING_FOR[step.why] };
      case 'report-hold':
        return { kind: 'held', hold: step.hold };
      case 'report-failure': {
        const failure = present(this.#known.failure, 'what failed before has a failure');
        const details = failure.hint === null ? {} : { hint: failure.hint };
        return { kind: 'failed', error: new DataError(failure.message, details), failure };
      }
      case 'leave':
        return { kind: 'current' };
      default:
        return unreachable(step);
    }
  }

  /** What was only told by the history that was read, and could not be had, is wanted from now on. */
  async #remember(ending: Ending): Promise<Ending> {
    const { parts, isAtHead } = this.#run;
    const read = [...this.#known.want.members].find(isAtHead);
    if (this.#history !== null && read !== undefined) {
      wantUnasked(read, onlyTold(this.#history, this.#known), parts);
    }
    return ending;
  }

  async #wantReload(reloads: readonly ReloadChange[]): Promise<Ending | null> {
    const { parts, isAtHead } = this.#run;
    const datasetId = this.#datasetId;
    for (const { subscriptionId, ...reload } of reloads) {
      if (isAtHead(subscriptionId))
        wantUnasked(subscriptionId, [{ kind: 'reload', datasetId, ...reload }], parts);
    }
    const want = present(parts.checkpoint.want(datasetId), 'what is worked on is wanted');
    this.#known = { ...this.#known, want };
    return pendingReloads(this.#known.held, want).size > 0 ? null : this.#keep();
  }

  /** The table is where it should be. */
  async #keep(): Promise<Ending> {
    const { want } = this.#known;
    this.#clearFailure();
    if (this.#history !== null && owesLook(want)) {
      this.#run.parts.checkpoint.markLooked(this.#datasetId, want.looksAsked);
    }
    // A process that was ended just after its commit has left the files of it.
    await this.#run.workshop.discard(this.#datasetId);
    return { kind: this.#commits.length > 0 ? 'updated' : 'current' };
  }

  async #work(work: Work): Promise<Ending | null> {
    const ground = { known: this.#known, history: this.#history, offers: this.#offers };
    try {
      return await this.#settle(await this.#run.workshop.carryOut(work, ground), work);
    } catch (error) {
      if (error instanceof UnknownColumnsError && !this.#isSchemaReadAgain) {
        // The schemas were read before the content: they may have been read too early.
        this.#isSchemaReadAgain = true;
        this.#history = null;
        return null;
      }
      if (error instanceof DataError) return this.#fail(error, contentAtFault(work, error));
      throw error;
    }
  }

  async #settle(outcome: WorkOutcome, work: Work): Promise<Ending | null> {
    const { parts } = this.#run;
    switch (outcome.kind) {
      case 'committed':
        await this.#afterCommit(outcome.commit, outcome.held, work);
        return null;
      case 'retired':
        assert(work.kind === 'retire', 'only a retirement retires');
        noteRetirement(this.#datasetId, work.reason, outcome.table, parts);
        this.#clearFailure();
        await this.#run.workshop.discard(this.#datasetId);
        return { kind: 'retired', table: outcome.table };
      case 'unusable':
        for (const [version, why] of outcome.versions) this.#unusable.set(version, why);
        noteUnusable(this.#datasetId, outcome.versions, parts);
        return null;
      case 'overtaken': {
        const { datasets } = await parts.destination.has();
        this.#known = { ...this.#known, held: datasets.get(this.#datasetId) ?? null };
        this.#history = null;
        this.#overtaken += 1;
        return null;
      }
      default:
        return unreachable(outcome);
    }
  }

  async #afterCommit(commit: Commit, held: HeldDataset, work: Work): Promise<void> {
    const { parts, workshop } = this.#run;
    this.#known = { ...this.#known, held };
    this.#commits.push(commit);
    parts.progress.committed(this.#datasetId, commit);
    if (work.kind !== 'load') {
      noteChanges(this.#datasetId, commit, parts);
      return;
    }
    noteLoad(this.#datasetId, commit, work.why, parts);
    // Whatever was at fault is replaced as a whole.
    this.#clearFailure();
    this.#markResynced();
    await workshop.discard(this.#datasetId);
  }

  #markResynced(): void {
    const { want } = this.#known;
    if (!owesResync(want)) return;
    this.#run.parts.checkpoint.markResynced(this.#datasetId, want.resyncsAsked);
    this.#known = { ...this.#known, want: { ...want, resyncsDone: want.resyncsAsked } };
  }

  #clearFailure(): void {
    if (this.#known.failure === null) return;
    this.#run.parts.checkpoint.clearFailure(this.#datasetId);
    this.#known = { ...this.#known, failure: null };
  }

  /**
   * Bad content is of no use to a later attempt, so what was staged of it goes. Changes that gave way to a snapshot that
   * is bad are not to be fetched again with it.
   */
  async #fail(error: DataError, content: string | null): Promise<Ending> {
    const { parts, workshop } = this.#run;
    const gaveWay = (this.#history?.versions ?? []).filter(({ version }) => this.#unusable.has(version));
    const contents = content === null ? [] : [content, ...gaveWay.map(unusableContentOf)];
    const failure = failureOf(this.#datasetId, error, contents, this.#known.failure, parts.clock.now());
    parts.checkpoint.fail(toRemember(failure, this.#known.failure));
    await workshop.discard(this.#datasetId);
    return { kind: 'failed', error, failure };
  }
}

const WAITING_FOR: Readonly<Record<WaitReason, string>> = {
  'not-offered': 'no manifest that was read lists it',
  'offer-lags': 'the manifest is older than what the service has announced',
  'list-lags': 'the list of versions ends before what the service has announced',
  'logs-unread': 'no subscription holds it any more; its table stays until every log was read to its end',
};

function cursorsOf(followed: ReadonlyMap<string, Followed>): ReadonlyMap<string, bigint> {
  return new Map([...followed].flatMap(([id, { cursor }]) => (cursor === null ? [] : [[id, cursor.number]])));
}

function changesTooFast(datasetId: string): DataError {
  return new DataError(
    `Dataset ${datasetId} changes faster than it downloads: ${MAX_OVERTAKEN} attempts were overtaken.`,
    { hint: 'It is tried again at the next catch-up. A faster connection to the service helps.' },
  );
}
