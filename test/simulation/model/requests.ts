/**
 * What happens to one request on its way: it is written down, meets the faults of the feed, is refused or answered, and
 * is tried again where that helps, as the client of the service does it.
 */

import type { Act, FaultScript } from '../../../fixtures/feed/faults.ts';
import type { Scope } from '../../../fixtures/feed/keys.ts';
import type { RequestFacts } from '../../../fixtures/feed/operations.ts';
import { cursorExpired, Refusal } from '../../../fixtures/feed/refusal.ts';
import type { RequestListeners } from '../../../fixtures/feed/request-listeners.ts';
import type { Random } from '../../../fixtures/source/random.ts';
import { isTransientStatus, type RefusedAnswer, refusalError } from '../../../src/feed/http/refusal.ts';
import type { Operation } from '../../../src/feed/operations.ts';
import { ServiceUnavailableError } from '../../../src/model/errors.ts';
import type { FeedSide } from '../stage.ts';
import type { Life } from './life.ts';

/** As the real stage is configured. */
const MAX_ATTEMPTS = 3;
const ATTEMPT_MS = 5;
const MOST_TURNS = 3;

/** The statuses of a link that has expired. */
const EXPIRED: readonly number[] = [401, 403, 404, 410];

export interface Request<T> {
  readonly facts: RequestFacts;
  readonly operation: Operation;
  readonly query?: Readonly<Record<string, unknown>>;
  /** The scope a key must have; null: the request carries no key. */
  readonly scope: Scope | null;
  /** @throws Refusal */
  readonly answer: () => T;
  /** The error of a refusal; that of the client by default. */
  readonly refused?: (operation: Operation, answer: RefusedAnswer) => Error;
}

export type FileAnswer<T> = T | 'expired' | 'wrong';

export interface RequestsParts {
  readonly feed: FeedSide;
  readonly listeners: RequestListeners;
  readonly life: Life;
  readonly random: Random;
}

/** One attempt came to nothing, and another may not. */
class Incident extends Error {}

export class Requests {
  readonly #parts: RequestsParts;

  constructor(parts: RequestsParts) {
    this.#parts = parts;
  }

  /** The body, changed on its way. @throws RefusalError, ServiceUnavailableError, InterruptedError */
  async ask<T>(request: Request<T>, signal: AbortSignal): Promise<T> {
    return this.#repeat(request, signal, (acts) => {
      this.#refuseKey(request);
      return rewritten(request.answer(), acts);
    });
  }

  /** A file, by a link without a key. */
  async askFile<T>(request: Request<T | 'expired'>, signal: AbortSignal): Promise<FileAnswer<T>> {
    return this.#repeat<FileAnswer<T>>(request, signal, (acts) => {
      if (acts.some((act) => act.kind === 'respond' && EXPIRED.includes(act.status))) return 'expired';
      const answer = request.answer();
      return answer !== 'expired' && acts.some(({ kind }) => kind === 'flipBit') ? 'wrong' : answer;
    });
  }

  async #repeat<T>(
    request: Request<unknown>,
    signal: AbortSignal,
    answer: (acts: readonly Act[]) => T,
  ): Promise<T> {
    const { feed, listeners, life } = this.#parts;
    const { operation, facts, refused = refusalError } = request;
    for (let attempt = 1; ; attempt += 1) {
      signal.throwIfAborted();
      await this.#travel();
      const entry = recorded(request, feed);
      listeners.arrived(facts);
      life.passRequest(facts.operation);
      try {
        const acts = await arriving(feed.faults, facts);
        const value = answer(acts);
        entry.status = 200;
        await this.#travel();
        return value;
      } catch (error) {
        if (error instanceof Refusal) {
          entry.status = error.status;
          throw refused(operation, answerOf(error, feed.clock.now()));
        }
        if (!(error instanceof Incident)) throw error;
        if (attempt === MAX_ATTEMPTS) throw unavailable(operation, error);
      }
    }
  }

  /** @throws Refusal */
  #refuseKey({ scope }: Request<unknown>): void {
    const { keys, apiKey, access, clock } = this.#parts.feed;
    const refusal = keys.check(`Bearer ${apiKey}`, scope, clock.now());
    if (refusal !== null) throw refusal;
    access.requireWorkspace();
  }

  /** Others get on meanwhile, more or less. */
  async #travel(): Promise<void> {
    const { feed, random } = this.#parts;
    feed.clock.advance(ATTEMPT_MS);
    for (let turns = random.integer(0, MOST_TURNS); turns > 0; turns -= 1) await null;
  }
}

/** The acts that the request meets. @throws Incident or Refusal if that is the answer. */
async function arriving(faults: FaultScript, facts: RequestFacts): Promise<readonly Act[]> {
  const acts = faults.take(facts);
  for (const act of acts) {
    if (act.kind === 'wait') await act.until();
    if (isExpired(act, facts)) throw cursorExpired('');
    const isIncident =
      act.kind === 'reset' ||
      act.kind === 'truncate' ||
      (act.kind === 'respond' && (facts.operation !== 'file' || isTransientStatus(act.status)));
    if (isIncident) throw new Incident(act.kind);
  }
  return acts;
}

function rewritten<T>(body: T, acts: readonly Act[]): T {
  // A fault makes of a body what it likes; its decoder treats it as any other.
  return acts.reduce((before, act) => (act.kind === 'rewrite' ? (act.rewrite(before) as T) : before), body);
}

function recorded({ facts, operation, query = {}, scope }: Request<unknown>, { requests, clock }: FeedSide) {
  const { operation: name, datasetId, subscriptionId } = facts;
  const entry = {
    at: clock.now(),
    operation: name,
    datasetId,
    subscriptionId,
    method: 'GET',
    path: operation.path,
    query,
    headerNames: [],
    hasAuthorization: scope !== null,
    range: null,
    ifRange: null,
    status: null as number | null,
  };
  requests.add(entry);
  return entry;
}

function answerOf({ status, code, message, links }: Refusal, readAt: Date): RefusedAnswer {
  return { status, error: { code, message, links: new Map(Object.entries(links)) }, readAt };
}

function unavailable({ title }: Operation, { message }: Incident): ServiceUnavailableError {
  return new ServiceUnavailableError(`Could not ${title}: ${message}, ${MAX_ATTEMPTS} times.`);
}

function isExpired(act: Act, { operation }: RequestFacts): boolean {
  return operation === 'events' && act.kind === 'respond' && act.status === 410;
}
