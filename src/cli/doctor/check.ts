/** What a check of `doctor` is given, and what it gives. */

import type { CheckpointReader } from '../../checkpoint/checkpoint.ts';
import type { InstanceHolder } from '../../checkpoint/instance-lock.ts';
import type { Inspection } from '../../configuration/inspect.ts';
import type { Held } from '../../destination/destination.ts';
import type { AnswerSeen } from '../../feed/http/connection-probe.ts';
import type { Subscription } from '../../model/subscription.ts';
import type { Context } from '../context.ts';
import type { CheckpointContent } from '../status/checkpoint-content.ts';
import type { Finding } from './findings.ts';

/** The names of the checks, in the order in which they are made and told. Programs rely on them. */
export type CheckName =
  | 'versions'
  | 'configuration'
  | 'disk'
  | 'locks'
  | 'checkpoint'
  | 'mirror'
  | 'connection'
  | 'clock'
  | 'key'
  | 'contract'
  | 'scopes'
  | 'subscriptions';

export interface Check {
  readonly name: CheckName;
  /** After so long it is given up; what it found is then that it takes too long. */
  readonly limitMs: number;
  /** Whatever it throws is a finding, and stops no other check. */
  run(patient: Patient, learned: Learned, signal: AbortSignal): Promise<Checked> | Checked;
}

export interface Checked {
  readonly findings: readonly Finding[];
  /** For the checks after it. */
  readonly learned?: Partial<Learned>;
}

/** What is looked at. */
export interface Patient {
  /** Of feed-sync. */
  readonly version: string;
  readonly inspection: Inspection;
  readonly context: Context;
}

/** What earlier checks found out, for later ones; null: not known. */
export interface Learned {
  readonly checkpoint: Remembered | null;
  readonly mirror: Held | null;
  readonly runningInstance: InstanceHolder | null;
  /** What the service answered to a request without a key. */
  readonly answer: AnswerSeen | null;
  /** Whether it answered, over a connection that is trusted. */
  readonly isReachable: boolean;
  /** What the key sees. */
  readonly subscriptions: readonly Subscription[] | null;
  /** Datasets that a manifest lists; not all of them. */
  readonly listedDatasetIds: readonly string[];
}

export type Remembered = CheckpointContent & {
  readonly contract: ReturnType<CheckpointReader['rememberedContract']>;
};

export const NOTHING_LEARNED: Learned = {
  checkpoint: null,
  mirror: null,
  runningInstance: null,
  answer: null,
  isReachable: false,
  subscriptions: null,
  listedDatasetIds: [],
};
