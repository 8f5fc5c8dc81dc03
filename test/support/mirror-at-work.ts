/** A mirror in a folder of its own, and what is done to it with datasets that are published without a feed. */

import { onTestFinished } from 'vitest';
import type { Content } from '../../fixtures/source/content.ts';
import type { Destination, JobResult } from '../../src/destination/destination.ts';
import type { MirrorOptions } from '../../src/destination/duckdb/mirror.ts';
import type { PostCommitSource } from '../../src/destination/publication.ts';
import type {
  ChangesJob,
  ObservedTable,
  Retirement,
  RetirementJob,
  WriteJob,
} from '../../src/model/write-jobs.ts';
import { commitAll } from './commit-all.ts';
import { type PublishedCourse, publishedCourse } from './duckdb-changes.ts';
import { mirrorIn, temporaryFolder } from './duckdb-mirror.ts';
import { mirrorDifferences } from './mirror-comparison.ts';
import { mirrorDump } from './mirror-dump.ts';
import { writeMirror } from './mirror-file.ts';

export const ENROLMENT = {
  origin: 'https://feed.example',
  subscriptionIds: ['sub_1'],
  forgottenSubscriptionIds: [],
  datasetIds: [],
};

/** What is done to a destination with datasets that are published without a feed. */
export interface DestinationAtWork {
  readonly destination: Destination;
  /** A dataset whose first version is loaded. */
  loaded(first: Content, datasetId?: string): Promise<PublishedCourse>;
  /** A dataset that is not loaded. */
  published(first: Content, datasetId?: string): PublishedCourse;
  /** The live table. @throws Error where there is none. */
  observed(datasetId?: string): Promise<ObservedTable>;
  /** Loads the newest version in the place of whatever table there is. */
  load(course: PublishedCourse): Promise<JobResult>;
  /** Applies everything that was published since. */
  apply(course: PublishedCourse, rest?: Partial<ChangesJob>): Promise<JobResult>;
  retire(course: PublishedCourse, how: Retirement): Promise<JobResult>;
  /** Validates and commits the write jobs together. The error of a failed validation is thrown. */
  execute(...jobs: readonly WriteJob[]): Promise<readonly JobResult[]>;
}

/** Enrolls the destination. Files are put below `folder`. */
export async function destinationAtWork(
  folder: string,
  destination: Destination,
): Promise<DestinationAtWork> {
  await destination.enroll(ENROLMENT);
  const observed = async (datasetId = 'parcels'): Promise<ObservedTable> => {
    const table = (await destination.has()).datasets.get(datasetId);
    if (table === undefined) throw new Error(`the mirror has no ${datasetId}`);
    return table;
  };
  const execute = async (...jobs: readonly WriteJob[]): Promise<readonly JobResult[]> => {
    const prepared = [];
    for (const job of jobs) prepared.push(await destination.validate(job));
    return await commitAll(destination, prepared);
  };
  const one = async (job: WriteJob): Promise<JobResult> => {
    const [outcome] = await execute(job);
    if (outcome === undefined) throw new Error('a unit has an outcome');
    return outcome;
  };
  const published = (first: Content, datasetId = 'parcels') => publishedCourse(folder, first, datasetId);
  const load = async (course: PublishedCourse): Promise<JobResult> => {
    const before = (await destination.has()).datasets.get(course.datasetId) ?? null;
    return await one(await course.snapshot(course.newest(), before));
  };
  return {
    destination,
    observed,
    execute,
    published,
    load,
    async loaded(first, datasetId) {
      const course = published(first, datasetId);
      await load(course);
      return course;
    },
    apply: async (course, rest) => one(await course.changes(await observed(course.datasetId), rest)),
    retire: async (course, how) => one(retirement(await observed(course.datasetId), how)),
  };
}

export interface MirrorAtWork extends DestinationAtWork {
  readonly folder: string;
  readonly path: string;
  readonly mirror: Destination & PostCommitSource;
  /** What the oracle sees where the newest versions of these datasets are to be all that is mirrored. */
  differences(...courses: readonly PublishedCourse[]): Promise<readonly string[]>;
  dump(): ReturnType<typeof mirrorDump>;
  /** Changes the file by hand. */
  byHand(...statements: readonly string[]): Promise<void>;
}

/** Is closed and removed when the test has finished. */
export async function mirrorAtWork(options: Partial<MirrorOptions> = {}): Promise<MirrorAtWork> {
  const folder = await temporaryFolder();
  const mirror = await mirrorIn(folder.path, options);
  onTestFinished(async () => {
    await mirror.close();
    await folder[Symbol.asyncDispose]();
  });
  const path = `${folder.path}/mirror.duckdb`;
  return {
    ...(await destinationAtWork(folder.path, mirror)),
    folder: folder.path,
    path,
    mirror,
    differences: (...courses) =>
      mirrorDifferences(path, {
        origin: ENROLMENT.origin,
        subscriptionIds: ENROLMENT.subscriptionIds,
        datasets: courses.map((course) => ({ datasetId: course.datasetId, version: course.newest() })),
        emptySnapshot: 'no-files',
      }),
    dump: () => mirrorDump(path),
    byHand: (...statements) => writeMirror(path, ...statements),
  };
}

export function retirement(observed: ObservedTable, how: Retirement): RetirementJob {
  const reason = 'left subscription sub_1: left_coverage';
  const judged = { retiredAt: new Date('2026-03-01T12:00:00.000Z'), isApproved: false };
  return { kind: 'retirement', datasetId: observed.datasetId, how, reason, ...judged, plannedFrom: observed };
}

/** The error of a write job that failed. */
export function errorOf(outcome: JobResult): Error {
  if (outcome.kind === 'failed') return outcome.error;
  throw new Error(`it should have failed, but was ${outcome.kind}`);
}
