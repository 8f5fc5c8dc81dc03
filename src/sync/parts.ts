/** The dependencies of a catch-up: the three ports, the ambient services and the user's choices. */

import type { Checkpoint, ProcessName } from '../checkpoint/checkpoint.ts';
import type { Requests } from '../checkpoint/requests.ts';
import type { Destination } from '../destination/destination.ts';
import type { Feed } from '../feed/feed.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { GateLimits } from '../model/gate.ts';
import type { Occurrence } from '../model/notification.ts';
import type { Retirement } from '../model/write-jobs.ts';
import type { Progress } from './progress.ts';

export interface Parts {
  readonly feed: Feed;
  readonly destination: Destination;
  readonly checkpoint: Checkpoint;
  readonly clock: Clock;
  readonly log: Log;
  readonly progress: Progress;
  readonly choices: Choices;
  /** This process, for people. */
  readonly process: ProcessName;
  /** Decisions of operators that requests bring, by name: each returns what was decided, or throws. Optional. */
  readonly decisions?: ReadonlyMap<string, (parameters: unknown, checkpoint: Checkpoint) => string>;
  /** Called with whatever operators may want to be notified of; optional. */
  readonly onOccurrence?: (occurrence: Occurrence) => void;
}

/** Returns the requests of operators: in the destination where every instance can ask there, else in the checkpoint. */
export function requestsOf({ destination, checkpoint }: Pick<Parts, 'destination' | 'checkpoint'>): Requests {
  return destination.requests ?? checkpoint.requests;
}

export interface Choices {
  /** Ids or names of subscriptions; null: all that the key can see. */
  readonly subscriptions: readonly string[] | null;
  /** Globs on dataset ids. */
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** The response to an additive schema change: load the snapshot again, or add the columns and apply the changes. */
  readonly schemaChanges: 'reload' | 'alter';
  /** The retirement of a table whose dataset no subscription contains any more. */
  readonly removedDatasets: Retirement;
  /** Where downloads are kept until they are committed. */
  readonly stagingDirectory: string;
  /** How long a manifest without a watermark may lag. */
  readonly manifestLagMs: number;
  /** The most bytes of changes that one step of a dataset stages (the setting changes.maxStagedBytes). */
  readonly maxStagedBytes: number;
  /** Whether each version of the dataset is a commit of its own, as far as changes lead from one to the next. */
  readonly commitsEveryVersion: (datasetId: string) => boolean;
  /** Above these limits a commit of the dataset waits until an operator approves it. */
  readonly limitsOf: (datasetId: string) => GateLimits;
  /** The most bytes of content that waits for approval and is kept (the setting gates.keepCandidates). */
  readonly keepCandidatesBytes: number;
  /** Hashes of the API key and the base URL: another key or base URL lifts a suspension of the workspace. */
  readonly keyHash: string;
}
