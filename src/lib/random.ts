/** Randomness, passed in wherever it is needed, so that tests own it. */
export interface Random {
  /** A number from 0 up to but not including 1. */
  next(): number;
}

export const systemRandom: Random = { next: () => Math.random() };
