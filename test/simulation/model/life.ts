/**
 * The life of a process that exists only in a history. It may be doomed to die at a point: from then on nothing that it
 * does has an effect, and what it waits for never comes.
 *
 * Invariant: a life that is over stores nothing. Whatever lasts passes a point of the life first.
 */

import type { Operation } from '../../../fixtures/feed/operations.ts';
import type { DeathPoint } from '../stage.ts';

/** Thrown into the code of a process at the point where it dies. Nobody is left to handle it. */
export class Died extends Error {
  constructor() {
    super('the process is dead');
  }
}

/** Resolves never. */
const NEVER = new Promise<never>(() => {});

export class Life {
  readonly #died = Promise.withResolvers<'died'>();
  #doom: DeathPoint | null = null;
  #met = 0;
  #isOver = false;

  get isOver(): boolean {
    return this.#isOver;
  }

  get died(): Promise<'died'> {
    return this.#died.promise;
  }

  /** It dies at that point, if it comes to it. Null: it does not. */
  doom(at: DeathPoint | null): void {
    this.#doom = at;
    this.#met = 0;
  }

  /** The service receives a request. */
  passRequest(operation: Operation): void {
    this.#pass(({ kind, ...at }) => kind === 'request' && 'operation' in at && at.operation === operation);
  }

  /** Before or after an effect that lasts. */
  passEffect(effect: string): void {
    this.#pass((at) => at.kind === 'effect' && (at.name ?? effect) === effect);
  }

  passCommit(timestamp: 'before' | 'after'): void {
    this.#pass((at) => (at.kind === 'commit' ? at.timestamp === timestamp : isAnyEffect(at)));
  }

  #pass(isMet: (at: DeathPoint) => boolean): void {
    if (this.#isOver) throw new Died();
    if (this.#doom === null || !isMet(this.#doom)) return;
    this.#met += 1;
    if (this.#met < this.#doom.nth) return;
    this.#isOver = true;
    this.#died.resolve('died');
    throw new Died();
  }
}

function isAnyEffect(at: DeathPoint): boolean {
  return at.kind === 'effect' && at.name === undefined;
}

/** The same port: once the life is over, nothing that was asked of it is answered. */
export function mortal<Port extends object>(port: Port, life: Life): Port {
  return new Proxy(port, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...given: readonly unknown[]): unknown => {
        if (life.isOver) return NEVER;
        const answer: unknown = Reflect.apply(member, target, given);
        return answer instanceof Promise ? unlessOver(answer, life) : answer;
      };
    },
  });
}

/** The same store of calls that are answered at once: once the life is over, all of them throw. */
export function mortalStore<Store extends object>(store: Store, life: Life): Store {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...given: readonly unknown[]): unknown => {
        if (life.isOver) throw new Died();
        return Reflect.apply(member, target, given);
      };
    },
  });
}

async function unlessOver(answer: Promise<unknown>, life: Life): Promise<unknown> {
  try {
    const value = await answer;
    return life.isOver ? await NEVER : value;
  } catch (error) {
    if (life.isOver) return await NEVER;
    throw error;
  }
}
