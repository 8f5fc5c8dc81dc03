/**
 * Bounds the memory of lists while they are read: of each one, and of all that are read at once. A parsed list takes
 * twice the bytes that were sent, and four times as much where it consists of short ids.
 */

const MAX_BYTES = 256_000_000;
/** A list of short ids takes a quarter of the heap then, and the page that is parsed last as much again. */
const OF_HEAP = 16;
const OF_MEMORY = 12;

/** Returns the most bytes of a list, as sent, on a machine or in a container with so much memory. */
export function listBytesFor(memoryBytes: number, heapBytes: number): number {
  return Math.floor(Math.min(MAX_BYTES, memoryBytes / OF_MEMORY, heapBytes / OF_HEAP));
}

interface ListShare {
  /** Resolves once there is room for another page. */
  room(signal: AbortSignal): Promise<void>;
  /** Returns the most bytes that the next page may have. */
  left(): number;
  /** Returns false where the list alone is too large. */
  keep(bytes: number): boolean;
  end(): void;
}

export class ListBudget {
  /** The most bytes of one list, and of all those together that go on beside the oldest one. */
  readonly maxBytes: number;
  /** The bytes of each list that is being read, the oldest list first. */
  readonly #kept = new Map<object, number>();
  readonly #waiting = new Set<() => void>();

  constructor(maxBytes: number = MAX_BYTES) {
    this.maxBytes = maxBytes;
  }

  /** The oldest list never waits, so that some list always comes to its end. */
  begin(): ListShare {
    const list = {};
    this.#kept.set(list, 0);
    const mayGoOn = (): boolean => {
      const [oldest] = this.#kept.keys();
      return oldest === list || this.#sum() <= this.maxBytes;
    };
    return {
      room: async (signal) => {
        while (!mayGoOn()) await this.#change(signal);
      },
      left: () => this.maxBytes - (this.#kept.get(list) ?? 0),
      keep: (bytes) => {
        const kept = (this.#kept.get(list) ?? 0) + bytes;
        this.#kept.set(list, kept);
        return kept <= this.maxBytes;
      },
      end: () => {
        this.#kept.delete(list);
        for (const wake of this.#waiting) wake();
      },
    };
  }

  #sum(): number {
    return [...this.#kept.values()].reduce((sum, bytes) => sum + bytes, 0);
  }

  async #change(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = (): void => reject(signal.reason);
    this.#waiting.add(resolve);
    signal.addEventListener('abort', onAbort);
    try {
      signal.throwIfAborted();
      await promise;
    } finally {
      this.#waiting.delete(resolve);
      signal.removeEventListener('abort', onAbort);
    }
  }
}
