/**
 * Remembers that the last requests were all given up in vain. Then each further one gets a single attempt, until one is
 * answered again: with thousands of datasets, all their repetitions together would wait out an outage for hours, while
 * none of them is held up by this for good.
 */
export interface Outage {
  readonly isLasting: boolean;
  /** A request was given up, though nothing asked us to wait. */
  noteGivenUp(): void;
  /** Somebody is there, whatever the answer. */
  noteAnswered(): void;
}

/** Requests given up in a row that make an outage a lasting one. */
export const REQUESTS_GIVEN_UP = 3;

export function noOutage(): Outage {
  let inARow = 0;
  return {
    get isLasting() {
      return inARow >= REQUESTS_GIVEN_UP;
    },
    noteGivenUp() {
      inARow += 1;
    },
    noteAnswered() {
      inARow = 0;
    },
  };
}
