/** Plays one history: the first load, the catch-ups in which the steps happen, and then calm until nothing is left to do. */

import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { FeedSyncError } from '../../src/model/errors.ts';
import { type Asking, type CaughtUp, Client, type Stores } from './client.ts';
import type { History, Placed, Point, RequestKind, Step } from './history.ts';
import { pointText, stepText } from './history.ts';
import { judgeCommit, judgeDifference, judgeResult, Wrong, whatIsLeft } from './judge.ts';
import type { Table } from './model-mirror.ts';
import { MINUTE_MS, Service } from './service.ts';
import { stateDigest } from './state.ts';
import { isEnd } from './steps.ts';

/** Requests about the dataset alone. */
const ABOUT_DATASET: ReadonlySet<RequestKind> = new Set(['entry', 'versions', 'changes', 'download']);
const CATCH_UP_MS = MINUTE_MS;
/** The lease of an instance that is stopped ends. */
const LEASE_MS = 30_000;
const BETWEEN_MS = 5 * MINUTE_MS;
const CALM_MS = 61 * MINUTE_MS;
/** After so many catch-ups of calm everything must be up to date. */
export const CALM_CATCH_UPS = 6;
/** A change without an event may be noticed only a day later. */
const DAY_MS = 24 * 60 * MINUTE_MS;

export interface Played {
  /** The requests of each catch-up in which steps could happen. */
  readonly points: readonly (readonly Point[])[];
  /** Requests in all. */
  readonly requests: number;
  /** Catch-ups of calm until everything was up to date; null: the state was met before. */
  readonly calmCatchUps: number | null;
  /** Steps that never happened, because the request never came. */
  readonly unreached: readonly Placed[];
}

export interface Options {
  /** Where everything ended well from the same state before, it need not be played again. */
  readonly met?: Set<string>;
  /** In place of the checkpoint in memory. */
  readonly checkpoint?: Checkpoint;
  /** Called with a line of text for everything that happens. */
  readonly report?: (line: string) => void;
}

/** @throws Wrong with the rule that is broken. */
export async function play(history: History, options: Options = {}): Promise<Played> {
  return await new Play(history, options).play();
}

/** `~`: a row of it is another. */
function shownTable(table: Table | null): string {
  return table === null ? 'no table' : `${table.content}${table.isAltered ? '~' : ''}`;
}

function withoutBigInts(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

class Play {
  readonly #history: History;
  readonly #service: Service;
  readonly #client: Client;
  /** Another instance takes over in this history. */
  readonly #isShared: boolean;
  readonly #met: Set<string> | null;
  readonly #report: (line: string) => void;
  #initial: Stores;
  #startedMs = 0;
  #tableSinceMs = 0;
  #counts = new Map<RequestKind, number>();
  #waiting: readonly Placed[] = [];
  #points: Point[] = [];
  #requests = 0;
  #losses: Step[] = [];
  #commits = 0;
  #fetched = 0;
  #wrong: Error | null = null;

  constructor(history: History, { met, checkpoint, report }: Options) {
    this.#history = history;
    this.#met = met ?? null;
    this.#report = report ?? (() => {});
    this.#service = new Service(history.setting);
    this.#isShared = history.catchUps.flat().some(({ step }) => step.kind === 'I');
    this.#client = new Client(
      this.#service,
      {
        asked: (request, asking) => this.#asked(request, asking),
        committed: (...commit) => this.#committed(...commit),
      },
      this.#isShared,
      checkpoint ?? null,
    );
    this.#initial = this.#client.stores();
  }

  async play(): Promise<Played> {
    if (this.#history.setting.start === 'later') {
      await this.#catchUp([]);
      this.#pass(CALM_MS);
      this.#initial = this.#client.stores();
    }
    const points: (readonly Point[])[] = [];
    const unreached: Placed[] = [];
    for (const placed of this.#history.catchUps) {
      unreached.push(...(await this.#catchUp(placed)));
      points.push(this.#points);
      this.#pass(BETWEEN_MS);
    }
    return { points, unreached, calmCatchUps: await this.#calm(), requests: this.#requests };
  }

  async #calm(): Promise<number | null> {
    this.#client.endOperator();
    const digest =
      this.#met === null ? null : stateDigest(this.#service, this.#client.stores(), this.#isShared);
    if (digest !== null && this.#met?.has(digest)) return null;
    let left: string | null = 'nothing was tried';
    let catchUps = 0;
    for (; left !== null && catchUps < CALM_CATCH_UPS; catchUps += 1) {
      this.#pass(catchUps === CALM_CATCH_UPS / 2 ? DAY_MS : CALM_MS);
      this.#isVerified = this.#client.table?.isAltered ?? false;
      await this.#catchUp([]);
      left = this.#left;
    }
    if (left !== null) throw new Wrong(`after ${catchUps} catch-ups of calm ${left}`);
    this.#pass(CALM_MS);
    const before = this.#commits + this.#fetched;
    await this.#catchUp([]);
    if (this.#left !== null) throw new Wrong(`once it was up to date, ${this.#left}`);
    if (this.#commits + this.#fetched > before) throw new Wrong('once it was up to date, it is loaded again');
    if (this.#isShared) for (const to of ['superseded', 'new'] as const) await this.#handOver(to);
    if (digest !== null) this.#met?.add(digest);
    return catchUps;
  }

  /** One that was superseded knows of what has happened since by the mirror alone; a new one begins there, and loads nothing again. */
  async #handOver(to: 'new' | 'superseded'): Promise<void> {
    this.#client.handOver(to);
    const before = this.#commits + this.#fetched;
    let left: string | null = 'nothing was tried';
    for (let catchUps = 0; left !== null && catchUps < CALM_CATCH_UPS; catchUps += 1) {
      this.#pass(CALM_MS);
      await this.#catchUp([]);
      left = this.#left;
    }
    if (left !== null) throw new Wrong(`once a ${to} instance has taken over, ${left}`);
    // Without a digest nothing shows a new instance that the content is the same once the position has expired.
    const mayLoad = this.#service.expiredMs > 0 && this.#history.setting.digests === 'nodigest';
    if (to === 'new' && !mayLoad && this.#commits + this.#fetched > before)
      throw new Wrong('once a new instance has taken over, it is loaded again');
  }

  #left: string | null = null;
  /** The operator verifies once the catch-up has ended. */
  #isVerified = false;

  /** Gives the steps that did not happen. */
  async #catchUp(placed: readonly Placed[]): Promise<readonly Placed[]> {
    this.#counts = new Map();
    this.#waiting = placed;
    this.#points = [];
    this.#startedMs = this.#service.nowMs;
    this.#report(`catch-up at ${this.#time()}`);
    const endMs = this.#startedMs + CATCH_UP_MS;
    const caughtUp = await this.#client.catchUp();
    if (this.#wrong !== null) throw this.#wrong;
    if (caughtUp !== null) {
      this.#judge(caughtUp);
      const { result, checkpoint } = caughtUp;
      const absences = checkpoint.absences().length;
      this.#left = whatIsLeft(this.#service, result, absences, this.#client.table);
    }
    if (this.#isVerified) await this.#verify();
    for (const loss of this.#losses) this.#lose(loss);
    this.#losses = [];
    this.#service.nowMs = Math.max(this.#service.nowMs, endMs);
    return this.#waiting;
  }

  #judge({ result, checkpoint }: CaughtUp): void {
    for (const dataset of result.datasets)
      this.#report(`  ${JSON.stringify({ ...dataset, commits: dataset.commits.length }, withoutBigInts)}`);
    for (const { error } of result.incidents) this.#report(`  ${error.stack}`);
    const absences = checkpoint.absences();
    this.#report(`  has ${shownTable(this.#client.table)}, ${JSON.stringify(absences)}`);
    judgeResult(this.#service, this.#startedMs, result, absences.length, this.#client.table);
  }

  /** Never rejects: what is wrong is thrown once the stopped catch-up has ended. */
  async #takeOver(): Promise<void> {
    const startedMs = this.#startedMs;
    this.#pass(LEASE_MS);
    this.#startedMs = this.#service.nowMs;
    try {
      this.#judge(await this.#client.takeOver());
    } catch (error) {
      this.#wrong ??= error instanceof Error ? error : new Error(String(error));
    }
    this.#report(`  the first is woken at ${this.#time()}`);
    this.#startedMs = startedMs;
  }

  async #verify(): Promise<void> {
    this.#isVerified = false;
    const { table } = this.#client;
    const found = await this.#client.verify().catch((error: unknown) => {
      if (!(error instanceof FeedSyncError)) throw error;
      return null;
    });
    this.#report(`  verified: ${found === null ? 'no difference' : `the service has ${found}`}`);
    if (found !== null && table !== null) judgeDifference(this.#service, table);
  }

  #asked(request: RequestKind, { isRefused, isOfTakeover }: Asking): Promise<void> | null {
    if (ABOUT_DATASET.has(request) && isRefused)
      this.#wrong ??= new Wrong(`${request} is asked, which the service has refused`);
    this.#requests += 1;
    if (request === 'changes' || request === 'download') this.#fetched += 1;
    if (isOfTakeover) {
      this.#report(`    ${request}`);
      return null;
    }
    const number = (this.#counts.get(request) ?? 0) + 1;
    this.#counts.set(request, number);
    this.#points.push({ request, number });
    const report = (): void => this.#report(`  ${pointText({ request, number })}`);
    const taking = this.#takeSteps({ request, number });
    if (taking !== null) return taking.then(report);
    report();
    return null;
  }

  /** The steps of a point, in the order in which they are written. Null: they have happened. */
  #takeSteps(at: Point): Promise<void> | null {
    for (const { step, at: each } of this.#waiting) {
      if (each.request !== at.request || each.number !== at.number) break;
      this.#waiting = this.#waiting.slice(1);
      this.#report(`  ${stepText(step)} at ${this.#time()}`);
      const taking = this.#take(step);
      if (taking !== null) return taking.then(() => this.#takeSteps(at) ?? undefined);
    }
    return null;
  }

  /** Null: it has happened. */
  #take(step: Step): Promise<void> | null {
    if (step.kind === 'I') return this.#takeOver();
    if (step.kind === 'Z') this.#isVerified = true;
    else if (isEnd(step)) {
      this.#client.kill();
      this.#losses.push(step);
    } else if (!this.#client.take(step)) this.#service.take(step);
    return null;
  }

  #lose({ kind }: Step): void {
    if (kind === 'C') this.#client.loseCheckpoint();
    if (kind === 'O') this.#client.restoreCheckpoint(this.#initial);
    if (kind === 'M') this.#client.restoreMirror(this.#initial);
  }

  #committed(
    ...[job, before, after]: Parameters<ConstructorParameters<typeof Client>[1]['committed']>
  ): void {
    this.#commits += 1;
    this.#report(`  ${job.kind}: ${before?.content ?? 'none'} becomes ${after?.content ?? 'none'}`);
    try {
      const judged = { service: this.#service, operator: this.#client.operator };
      judgeCommit(judged, this.#startedMs, this.#tableSinceMs, job, before, after);
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      this.#wrong ??= error;
    }
    if (before === null) this.#tableSinceMs = this.#service.nowMs;
  }

  #pass(ms: number): void {
    this.#service.nowMs += ms;
  }

  #time(): string {
    return new Date(this.#service.nowMs).toISOString();
  }
}
