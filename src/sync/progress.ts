/** What a catch-up tells while it works. Observers only show; nothing depends on them. */

import type { FeedEvent, UnreadableEvent } from '../model/event.ts';
import type { Commit, DatasetResult } from './result.ts';

export interface Progress {
  /** Events of a log that were read for the first time; what they ask for is stored. */
  read(subscriptionId: string, events: readonly (FeedEvent | UnreadableEvent)[]): void;
  /** How many datasets will be looked at. */
  started(datasets: number): void;
  /** Work on a dataset begins. `what` says for people what is done: `applying versions 3 to 602`. */
  began(datasetId: string, what: string): void;
  /** Bytes that arrived for the dataset since the last call. */
  downloaded(bytes: number, datasetId: string): void;
  committed(datasetId: string, commit: Commit): void;
  settled(result: DatasetResult): void;
}

export const silentProgress: Progress = {
  read() {},
  started() {},
  began() {},
  downloaded() {},
  committed() {},
  settled() {},
};
