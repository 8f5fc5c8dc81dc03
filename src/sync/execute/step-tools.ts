/** The tools and the results of a step, and the commit of its job. */

import type { LimitFunction } from 'p-limit';
import type { JobResult } from '../../destination/destination.ts';
import type { CandidateContent } from '../../model/candidate.ts';
import type { JudgedCommit } from '../../model/gate.ts';
import type { Version } from '../../model/records.ts';
import type { WriteJob } from '../../model/write-jobs.ts';
import type { EntrySource } from '../manifest-cache.ts';
import type { Parts } from '../parts.ts';
import type { DatasetState } from '../plan/dataset-state.ts';
import type { Metadata, Plan } from '../plan/step.ts';
import type { PlannedStep } from '../result.ts';
import type { Staging } from './staging-folder.ts';
import type { Writer } from './writer.ts';

/** A step of this kind; together they are the steps that change the destination. */
export type WorkOf<Kind extends 'load' | 'apply' | 'retire'> = Extract<Plan, { kind: Kind }>;

export type Work = WorkOf<'load' | 'apply' | 'retire'>;

export interface StepDependencies {
  readonly known: DatasetState;
  readonly metadata: Metadata | null;
  readonly listedEntries: EntrySource;
  /** Reads the logs of the dataset: false where they request something else by now. */
  readonly isStillDesired: () => Promise<boolean>;
}

export interface Tools {
  readonly parts: Parts;
  readonly staging: Staging;
  readonly writer: Writer;
  /** Limits how many versions of changes are fetched at once, over all datasets. */
  readonly fetching: LimitFunction;
  readonly signal: AbortSignal;
}

/** The tools of fetching, none of which changes the destination. */
export type FetchTools = Pick<Tools, 'staging' | 'fetching' | 'signal'> & {
  readonly parts: Pick<Parts, 'feed' | 'progress' | 'clock' | 'choices'>;
};

/** The tools with which requests of operators are performed. */
export interface ForRequests {
  /** Validates the job and commits it. */
  readonly commit: (job: WriteJob) => Promise<JobResult>;
  readonly tools: FetchTools;
}

/** The content that awaits approval. */
export interface Awaiting {
  readonly version: number;
  readonly judged: JudgedCommit;
  /** Identifies the content by what the service states about it; the first is its own. */
  readonly identities: readonly string[];
  /** The content to keep as the candidate; null: it waits beside the candidate that stands. */
  readonly content: CandidateContent | null;
}

/** The end of a step that did not fail. */
export type StepResult =
  | Exclude<JobResult, { readonly kind: 'failed' | 'awaiting' }>
  /** The gate holds back the content, or each sum of versions that it judged. */
  | { readonly kind: 'awaiting'; readonly awaiting: readonly Awaiting[] }
  /** The content of the candidate cannot be had any more. `why` is a clause. */
  | { readonly kind: 'candidate-gone'; readonly why: string }
  /** A dry run does not execute the step. */
  | { readonly kind: 'planned'; readonly step: PlannedStep }
  /**
   * The changes of these versions are inapplicable, each with the reason, and nothing was applied. `oversized` is the
   * version among them whose changes alone exceed the limit of staged bytes.
   */
  | {
      readonly kind: 'inapplicable';
      readonly versions: ReadonlyMap<number, string>;
      readonly oversized: Version | null;
    };

/** Has the destination validate the job, then queues it for the writer. @throws the error of the validation or of the job. */
export async function validateAndCommit(
  job: WriteJob,
  { parts, writer }: Tools,
): Promise<Exclude<JobResult, { readonly kind: 'failed' }>> {
  parts.progress.arrived(job.datasetId);
  const result = await writer.commit(await parts.destination.validate(job));
  if (result.kind === 'failed') throw result.error;
  return result;
}
