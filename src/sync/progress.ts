/** What a catch-up tells while it works. Observers only show; nothing depends on them. */

import type { DatasetResult } from './result.ts';

export interface Progress {
  /** How many datasets will be looked at. */
  started(datasets: number): void;
  downloaded(bytes: number): void;
  settled(result: DatasetResult): void;
}

export const silentProgress: Progress = {
  started() {},
  downloaded() {},
  settled() {},
};
