/**
 * Reconciles one dataset: plans one step, executes it, and plans again with the result, until nothing is left to do
 * now. An error of a dataset is recorded and reported, and delays no other dataset.
 */

import { assert, present, unreachable } from '../lib/assert.ts';
import type { CommitResult } from '../model/commits.ts';
import { type DesiredState, type Reload, withoutAnswered } from '../model/desired-state.ts';
import { BadChangesError, DataError, UnknownColumnsError } from '../model/errors.ts';
import { endCandidate, noteAwaiting, noteEnded, suspensionOfCandidate, whyEnded } from './candidates.ts';
import { contentAtFault, type StepExecutor } from './execute/executor.ts';
import type { Awaiting, StepResult, Work } from './execute/step-tools.ts';
import { noteChanges, noteInapplicable, noteLoad, noteRetirement } from './execute/sync-runs.ts';
import { changesTooFast, errorOf, failureOf, toRemember } from './failures.ts';
import { onlyAnnounced, requestReloads } from './follow/audit.ts';
import { isAnyLogDoubted } from './follow/log-restart.ts';
import type { ReloadRequest } from './follow/reload-requests.ts';
import { InapplicableChanges } from './inapplicable-changes.ts';
import type { EntrySource } from './manifest-cache.ts';
import { noteLostPast, noteOccurrences } from './occurrences.ts';
import type { Parts } from './parts.ts';
import { candidateOf } from './plan/candidate.ts';
import type { DatasetState } from './plan/dataset-state.ts';
import { asksTheSame, isAnnounced, isRefreshPending, isSatisfied } from './plan/need.ts';
import { plan } from './plan/plan.ts';
import { reloadsOfRetired, type VerdictOf } from './plan/retirement.ts';
import type { Metadata, Plan } from './plan/step.ts';
import { headOf, isAnyReplaced } from './plan/versions.ts';
import { type DatasetEnding, type DatasetResult, WAITING_FOR, waiting } from './result.ts';
import { retirementWaits } from './retirements.ts';
import { VersionAbsences } from './version-absences.ts';

/**
 * The most plans of one dataset in one go. Every plan that is not stale makes progress, so this is far more than any
 * dataset needs.
 */
const MAX_PLANS = { ofBacklog: 100, ofEveryVersion: 10_000 };
/** How often a dataset is planned again because its content changed during a download or a commit. */
const MAX_STALE_PLANS = 4;

export interface Reconciliation {
  readonly parts: Parts;
  readonly executor: StepExecutor;
  readonly signal: AbortSignal;
  readonly entriesFor: (datasetId: string) => EntrySource;
  /** Whether the log of a subscription was just read to its head. */
  readonly isAtHead: (subscriptionId: string) => boolean;
  /** Asks for a reload as of now; false where no subscription that contains the dataset can be asked. */
  readonly askReload: (request: ReloadRequest) => Promise<boolean>;
  /** Reads the logs of the subscriptions that contain the dataset; false where they cannot be read to their heads now. */
  readonly readLogs: (datasetId: string) => Promise<boolean>;
  /** Returns the dataset as both stores know it now. */
  readonly readAgain: (known: DatasetState) => DatasetState;
  /** Whether the table of a dataset that no subscription contains may retire. */
  readonly verdictOf: VerdictOf;
  /** Records an error by its scope. Never throws. */
  readonly record: (error: unknown, known: DatasetState) => DatasetEnding;
}

/** Reconciles a dataset: plans and executes its steps until nothing is left to do now. Never throws. */
export function reconcile(known: DatasetState, run: Reconciliation): Promise<DatasetResult> {
  return new Reconciler(known, run).reconcile();
}

class Reconciler {
  readonly #run: Reconciliation;
  readonly #datasetId: string;
  readonly #listedEntries: EntrySource;
  readonly #absences: VersionAbsences;
  readonly #inapplicable: InapplicableChanges;
  #known: DatasetState;
  /** Null: to be read, or to be read again. */
  #metadata: Metadata | null = null;
  /** The metadata as it was read last, whatever the desired state was then. */
  #lastMetadata: Metadata | null = null;
  /** The metadata refreshes that reading the metadata satisfies; null: some log was not read to its head before. */
  #refreshes: number | null = null;
  /** The logs were read to their heads after the metadata. */
  #areLogsRead = false;
  readonly #commits: CommitResult[] = [];
  #stalePlan = 0;
  #isSchemaReadAgain = false;

  constructor(known: DatasetState, run: Reconciliation) {
    this.#run = run;
    this.#known = known;
    this.#datasetId = known.desired.datasetId;
    this.#listedEntries = run.entriesFor(this.#datasetId);
    this.#absences = new VersionAbsences(this.#datasetId, run.parts);
    this.#inapplicable = new InapplicableChanges(run.parts);
  }

  async reconcile(): Promise<DatasetResult> {
    const record = (error: unknown): DatasetEnding => {
      const failure = this.#inapplicable.failureOfOversized(this.#known) ?? this.#known.failure;
      return this.#run.record(error, { ...this.#known, failure });
    };
    const ended = await this.#untilNothingIsLeft().catch(record);
    const ending = await this.#remember(ended).catch(record);
    return { datasetId: this.#datasetId, commits: this.#commits, ...ending };
  }

  async #untilNothingIsLeft(): Promise<DatasetEnding> {
    const isEvery = this.#run.parts.choices.commitsEveryVersion(this.#datasetId);
    for (let left = MAX_PLANS[isEvery ? 'ofEveryVersion' : 'ofBacklog']; left > 0; left--) {
      const ending = await this.#take(this.#next());
      if (ending !== null) return ending;
      if (this.#stalePlan === MAX_STALE_PLANS) throw changesTooFast(this.#datasetId, MAX_STALE_PLANS);
    }
    return waiting('there is more to do than one catch-up does; the next goes on');
  }

  #next(): Plan {
    const { parts, verdictOf } = this.#run;
    const { schemaChanges, manifestLagMs, maxStagedBytes } = parts.choices;
    this.#readAgain();
    return plan({
      ...this.#known,
      listedEntries: this.#listedEntries.of(this.#known.desired),
      absentSince: this.#metadata === null ? new Map() : this.#absences.since(),
      metadata: this.#metadata,
      inapplicable: this.#inapplicable.reasons,
      retirement: verdictOf(this.#known.desired),
      schemaChanges,
      manifestLagMs,
      maxStagedBytes,
      commitsEveryVersion: parts.choices.commitsEveryVersion(this.#datasetId),
      limits: parts.choices.limitsOf(this.#datasetId),
      now: parts.clock.now(),
    });
  }

  /** Has everything read again, because data that was read before the desired state changed may not cover the change. */
  #readAgain(): void {
    const known = this.#run.readAgain(this.#known);
    if (!asksTheSame(known.desired, this.#known.desired)) {
      this.#metadata = null;
      this.#listedEntries.renew();
    }
    this.#known = known;
  }

  /** Executes a step. Null: plan again. */
  async #take(step: Plan): Promise<DatasetEnding | null> {
    const { parts, signal } = this.#run;
    switch (step.kind) {
      case 'read-metadata':
        await this.#readMetadata(step.newerThan);
        return null;
      case 'read-manifest':
        await this.#listedEntries.read(this.#known.desired, signal);
        return null;
      case 'ask-reload':
        return this.#askReload(step.isWithdrawal, step.why);
      case 'void-announced':
        parts.checkpoint.voidAnnounced(this.#datasetId, step.above);
        // Where the same number is announced again, its absence is measured from then on.
        this.#absences.forgetAnnounced(this.#known);
        parts.log.warn(
          { dataset: this.#datasetId, newest: step.above },
          'Versions that were announced have been absent from the list of versions for an hour: they count as withdrawn.',
        );
        return null;
      case 'apply':
        return this.#apply(step);
      case 'load':
      case 'retire':
        return this.#work(step);
      case 'keep':
        return this.#keep();
      case 'wait':
        return waiting(this.#inapplicable.whyWaiting(step, this.#known, this.#metadata), step.until);
      case 'await-subscriptions':
        return retirementWaits(step.awaited);
      case 'drop-candidate':
        await this.#endCandidate(step.why);
        return null;
      case 'report-suspension':
        return { kind: 'suspended', suspension: step.suspension };
      case 'report-pin': {
        const { version } = present(this.#known.observed, 'a pinned dataset has a table');
        return { kind: 'pinned', version, pinnedSince: step.pinnedSince };
      }
      case 'report-failure': {
        const failure = present(this.#known.failure, 'what failed before has a failure');
        const remembered = this.#inapplicable.addedTo(failure, this.#metadata);
        if (remembered !== null) parts.checkpoint.fail(remembered);
        return { kind: 'failed', error: errorOf(failure), failure };
      }
      case 'leave':
        return { kind: 'current', recheckAt: null };
      default:
        return unreachable(step);
    }
  }

  /** Stores as desired whatever only the metadata showed and the dataset does not have yet. */
  async #remember(ending: DatasetEnding): Promise<DatasetEnding> {
    const { parts, isAtHead } = this.#run;
    const read = [...this.#known.desired.members.keys()].find(isAtHead);
    if (this.#metadata !== null && read !== undefined) {
      requestReloads(read, onlyAnnounced(this.#metadata, this.#known), parts);
    }
    const failure = ending.kind === 'waiting' ? this.#inapplicable.failureOfOversized(this.#known) : null;
    if (failure !== null) parts.checkpoint.fail(failure);
    return ending;
  }

  async #readMetadata(newerThan: number | null): Promise<void> {
    const { parts, signal, isAtHead } = this.#run;
    const { desired } = this.#known;
    const entries = (this.#listedEntries.of(desired) ?? []).map(({ entry }) => entry);
    const isRead = [...desired.members.keys()].every(isAtHead);
    this.#refreshes = isRead ? desired.refreshesRequested : null;
    const unlisted = this.#unlistedReloads();
    this.#areLogsRead = false;
    const { versions, readAt } = await parts.feed.versions(this.#datasetId, newerThan, signal);
    const schemas = await parts.feed.schemas(this.#datasetId, signal);
    const metadata: Metadata = { newerThan, versions, schemas, readAt, entriesBefore: new Set(entries) };
    if (this.#lastMetadata !== null && isAnyReplaced(entries, this.#lastMetadata, metadata)) {
      this.#listedEntries.renew();
      this.#stalePlan += 1;
    }
    this.#metadata = metadata;
    this.#lastMetadata = metadata;
    // A reload that was requested while the list was read waits for the next list, because this one may be older.
    if (unlisted > 0 && this.#unlistedReloads() === unlisted) {
      parts.checkpoint.noteListed(this.#datasetId, headOf(metadata)?.version ?? newerThan ?? 0);
    }
    this.#absences.note(this.#known, metadata);
  }

  /** Returns the reloads that wait for the first list of versions after them. */
  #unlistedReloads(): number {
    const reloads = this.#run.parts.checkpoint.desired(this.#datasetId)?.reloads ?? [];
    return reloads.filter(({ listedVersion }) => listedVersion === null).length;
  }

  async #askReload(isWithdrawal: boolean, why: string): Promise<DatasetEnding | null> {
    const { parts, askReload } = this.#run;
    const isAsked = await askReload({ datasetId: this.#datasetId, isWithdrawal });
    if (!isAsked) return waiting(NOT_ASKED);
    parts.log.warn({ dataset: this.#datasetId, why }, 'The table is to be loaded again.');
    return null;
  }

  async #keep(): Promise<DatasetEnding> {
    const { desired } = this.#known;
    this.#clearFailure();
    this.#absences.forgetUnexpected(this.#known);
    const recheckAt = this.#metadata === null ? null : this.#absences.recheckAt(this.#known, this.#metadata);
    if (this.#metadata !== null && isRefreshPending(desired) && recheckAt === null) {
      if (this.#refreshes === null) return waiting(LOG_UNREAD);
      if (headOf(this.#metadata) === null) return waiting(WAITING_FOR['list-lags']);
      this.#run.parts.checkpoint.markRefreshed(this.#datasetId, this.#refreshes);
    }
    // A process that was killed just after its commit has left the staged files.
    await this.#run.executor.discard(this.#datasetId);
    return { kind: this.#commits.length > 0 ? 'updated' : 'current', recheckAt };
  }

  /**
   * A version that is listed, but not yet announced by any log, may build on content that was replaced before it was
   * published. The logs report such a replacement, except a log that may have been restarted.
   */
  async #apply(work: Extract<Work, { kind: 'apply' }>): Promise<DatasetEnding | null> {
    const { parts, readLogs } = this.#run;
    const { desired } = this.#known;
    const last = present(work.versions.at(-1), 'a path has versions');
    const isReported = isAnnounced(desired, last.version) && !isAnyLogDoubted(desired.members.keys(), parts);
    if (this.#areLogsRead || isReported) return this.#work(work);
    if (!(await readLogs(this.#datasetId))) return waiting(LOG_UNREAD);
    this.#areLogsRead = true;
    const now = parts.checkpoint.desired(this.#datasetId) ?? desired;
    return asksTheSame(now, desired) ? this.#work(work) : null;
  }

  /** Logs that cannot be read now request nothing. */
  async #isStillDesired(desired: DesiredState): Promise<boolean> {
    await this.#run.readLogs(this.#datasetId);
    return asksTheSame(this.#run.parts.checkpoint.desired(this.#datasetId) ?? desired, desired);
  }

  async #work(work: Work): Promise<DatasetEnding | null> {
    const { desired } = this.#known;
    const isStillDesired = (): Promise<boolean> => this.#isStillDesired(desired);
    const dependencies = {
      known: this.#known,
      metadata: this.#metadata,
      listedEntries: this.#listedEntries,
      isStillDesired,
    };
    try {
      // Before the commit: a process that is killed between the two stores still knows what an older table owes.
      if (work.kind === 'retire') this.#noteRetired();
      return await this.#settle(await this.#run.executor.execute(work, dependencies), work);
    } catch (error) {
      if (error instanceof UnknownColumnsError && !this.#isSchemaReadAgain) {
        // The schemas were read before the content, perhaps too early.
        this.#isSchemaReadAgain = true;
        this.#metadata = null;
        return null;
      }
      if (error instanceof DataError) {
        const ending = await this.#fail(error, contentAtFault(work, error, this.#metadata));
        return error instanceof BadChangesError ? this.#goOnBefore(ending) : ending;
      }
      throw error;
    }
  }

  async #settle(result: StepResult, work: Work): Promise<DatasetEnding | null> {
    const { parts } = this.#run;
    switch (result.kind) {
      case 'committed':
        await this.#noteCommit(result.committed, work);
        return null;
      case 'retired':
        assert(work.kind === 'retire', 'only a retirement retires');
        noteRetirement(this.#datasetId, work.reason, result.table, parts);
        this.#clearFailure();
        await this.#run.executor.discard(this.#datasetId);
        return { kind: 'retired', table: result.table };
      case 'planned':
        return result;
      case 'awaiting':
        for (const one of result.awaiting) await this.#noteAwaiting(one);
        return null;
      case 'candidate-gone':
        await this.#endCandidate(result.why);
        return null;
      case 'inapplicable':
        this.#inapplicable.note(result);
        noteInapplicable(this.#datasetId, result.versions, parts);
        return null;
      case 'stale-plan': {
        const { datasets } = await parts.destination.has();
        this.#known = { ...this.#known, observed: datasets.get(this.#datasetId) ?? null };
        this.#metadata = null;
        this.#stalePlan += 1;
        return null;
      }
      default:
        return unreachable(result);
    }
  }

  #noteRetired(): void {
    const { checkpoint } = this.#run.parts;
    const desired = checkpoint.desired(this.#datasetId) ?? this.#known.desired;
    checkpoint.noteRetired(this.#datasetId, reloadsOfRetired(desired, checkpoint.followed()));
  }

  async #noteCommit(commit: CommitResult, work: Work): Promise<void> {
    const { parts, executor } = this.#run;
    const { observed } = commit;
    noteOccurrences(this.#known.observed, commit, parts);
    noteLostPast(commit, parts);
    const candidate = candidateOf(this.#known);
    this.#known = { ...this.#known, observed };
    if (candidate !== null) {
      await executor.discardCandidate(this.#datasetId);
      noteEnded(candidate, whyEnded(candidate, commit), parts);
      this.#known = { ...this.#known, suspension: null };
    }
    this.#commits.push(commit);
    parts.progress.committed(this.#datasetId, commit);
    if (work.kind !== 'load') {
      noteChanges(this.#datasetId, commit, parts);
      return;
    }
    noteLoad(this.#datasetId, commit, work.why, parts);
    // The load replaces all content, including whatever was at fault.
    this.#clearFailure();
    this.#absences.forgetUnexpected(this.#known);
    const { desired } = this.#known;
    if (desired.reloads.length > 0) {
      const isNowSatisfied = (reload: Reload): boolean => isSatisfied(reload, observed);
      parts.checkpoint.markSatisfied(this.#datasetId, isNowSatisfied);
      // A reload that the load has satisfied is no new demand.
      this.#known = { ...this.#known, desired: withoutAnswered(desired, isNowSatisfied) };
    }
    await executor.discard(this.#datasetId);
  }

  async #noteAwaiting(awaiting: Awaiting): Promise<void> {
    const known = this.#known;
    const candidate = await noteAwaiting({ ...awaiting, known }, this.#run.parts);
    this.#known = { ...known, suspension: suspensionOfCandidate(candidate) };
    this.#clearFailure();
  }

  async #endCandidate(why: string): Promise<void> {
    const { parts, executor } = this.#run;
    const candidate = candidateOf(this.#known);
    if (candidate === null) return;
    await executor.discardCandidate(this.#datasetId);
    await endCandidate(candidate, why, parts);
    this.#known = { ...this.#known, suspension: null };
  }

  /** Bad changes do not delay the versions before them: the plan continues up to there. */
  #goOnBefore(ending: DatasetEnding): DatasetEnding | null {
    if (ending.kind !== 'failed' || ending.failure === null) return ending;
    this.#known = { ...this.#known, failure: ending.failure };
    return null;
  }

  #clearFailure(): void {
    if (this.#known.failure === null) return;
    this.#run.parts.checkpoint.clearFailure(this.#datasetId);
    this.#known = { ...this.#known, failure: null };
  }

  /**
   * Later attempts have no use for bad content, so its staged files are discarded. Where a single file differed from
   * the manifest, the other files stay. Changes that fell back to a bad snapshot are not fetched again with it.
   */
  async #fail(error: DataError, content: string | null): Promise<DatasetEnding> {
    const { parts, executor } = this.#run;
    const contents = content === null ? [] : [content, ...this.#inapplicable.contents(this.#metadata)];
    const failure = failureOf(this.#datasetId, error, contents, this.#known.failure, parts.clock.now());
    parts.checkpoint.fail(toRemember(failure, this.#known.failure));
    if (error.code !== 'content_mismatch') await executor.discard(this.#datasetId);
    return { kind: 'failed', error, failure };
  }
}

const LOG_UNREAD = 'a log that may say more of it was not read to its end';
const NOT_ASKED = 'it is to be loaded again, and no subscription that contains it can be read now';
