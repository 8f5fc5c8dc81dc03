/** A mirror in a folder of its own, and what is done to it with datasets that are published without a feed. */

import { onTestFinished } from 'vitest';
import type { Content } from '../../fixtures/source/content.ts';
import type { Destination, Outcome } from '../../src/destination/destination.ts';
import type { MirrorOptions } from '../../src/destination/duckdb/mirror.ts';
import type { Outlet } from '../../src/destination/publication.ts';
import type {
  ChangesUnit,
  HeldDataset,
  Retirement,
  RetirementUnit,
  Unit,
} from '../../src/model/write-jobs.ts';
import { commitAll } from './commit-all.ts';
import { type PublishedCourse, publishedCourse } from './duckdb-changes.ts';
import { mirrorIn, temporaryFolder } from './duckdb-mirror.ts';
import { mirrorDifferences } from './mirror-comparison.ts';
import { mirrorDump } from './mirror-dump.ts';
import { writeMirror } from './mirror-file.ts';

const ENROLMENT = {
  origin: 'https://feed.example',
  subscriptionIds: ['sub_1'],
  forgottenSubscriptionIds: [],
  datasetIds: [],
};

export interface MirrorAtWork {
  readonly folder: string;
  readonly path: string;
  readonly mirror: Destination & Outlet;
  /** A dataset whose first version is loaded. */
  loaded(first: Content, datasetId?: string): Promise<PublishedCourse>;
  /** A dataset that is not loaded. */
  published(first: Content, datasetId?: string): PublishedCourse;
  /** The live table. @throws Error where there is none. */
  held(datasetId?: string): Promise<HeldDataset>;
  /** Loads the newest version in the place of whatever table there is. */
  load(course: PublishedCourse): Promise<Outcome>;
  /** Applies everything that was published since. */
  apply(course: PublishedCourse, rest?: Partial<ChangesUnit>): Promise<Outcome>;
  retire(course: PublishedCourse, how: Retirement): Promise<Outcome>;
  /** Prepares and commits the units together. What is wrong with one that cannot be prepared is thrown. */
  carryOut(...units: readonly Unit[]): Promise<readonly Outcome[]>;
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
  await mirror.enroll(ENROLMENT);
  const path = `${folder.path}/mirror.duckdb`;
  const held = async (datasetId = 'parcels'): Promise<HeldDataset> => {
    const table = (await mirror.has()).datasets.get(datasetId);
    if (table === undefined) throw new Error(`the mirror has no ${datasetId}`);
    return table;
  };
  const carryOut = async (...units: readonly Unit[]): Promise<readonly Outcome[]> => {
    const prepared = [];
    for (const unit of units) prepared.push(await mirror.prepare(unit));
    return await commitAll(mirror, prepared);
  };
  const one = async (unit: Unit): Promise<Outcome> => {
    const [outcome] = await carryOut(unit);
    if (outcome === undefined) throw new Error('a unit has an outcome');
    return outcome;
  };
  const published = (first: Content, datasetId = 'parcels') => publishedCourse(folder.path, first, datasetId);
  const load = async (course: PublishedCourse): Promise<Outcome> => {
    const before = (await mirror.has()).datasets.get(course.datasetId) ?? null;
    return await one(await course.snapshot(course.newest(), before));
  };
  return {
    folder: folder.path,
    path,
    mirror,
    held,
    carryOut,
    published,
    load,
    async loaded(first, datasetId) {
      const course = published(first, datasetId);
      await load(course);
      return course;
    },
    apply: async (course, rest) => one(await course.changes(await held(course.datasetId), rest)),
    retire: async (course, how) => one(retirement(await held(course.datasetId), how)),
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

export function retirement(held: HeldDataset, how: Retirement): RetirementUnit {
  const reason = 'left subscription sub_1: left_coverage';
  const judged = { retiredAt: new Date('2026-03-01T12:00:00.000Z'), isApproved: false };
  return { kind: 'retirement', datasetId: held.datasetId, how, reason, ...judged, plannedFrom: held };
}

/** The error of a unit that failed. */
export function errorOf(outcome: Outcome): Error {
  if (outcome.kind === 'failed') return outcome.error;
  throw new Error(`it should have failed, but was ${outcome.kind}`);
}
