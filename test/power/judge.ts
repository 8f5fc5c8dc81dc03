/** Lays out a state of the disk and asks the program to go on from there. */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { mirrorIn } from '../support/duckdb-mirror.ts';
import { openExactly } from '../support/exact-mirror.ts';
import { Judgements, type Runner } from '../support/program-runner.ts';
import { sendable } from '../support/program-worker.ts';
import { everythingPublished } from '../support/published.ts';
import type { Course } from './courses.ts';
import { type DiskState, digestOf, keptFiles, type Reported } from './states.ts';

const QUARANTINED = /\.corrupt-/;
const TORN = /Corrupt WAL file: entry at byte position/;

export interface JudgeOptions {
  readonly feed: FixtureFeed;
  readonly course: Course;
  /** The folder of the built program. */
  readonly program: string;
  /** Where the installation was recorded, and nothing is now. */
  readonly home: string;
}

export interface Judged {
  /** The faults, in words; none where everything reported is there and the installation catches up. */
  readonly faults: readonly string[];
  readonly digest: string;
  /** The same files were judged before, with the same reports. */
  readonly isKnown: boolean;
}

/** Judges one state after another, each only once. */
export class Judge {
  readonly #options: JudgeOptions;
  readonly #judgements: Judgements;
  readonly #known = new Map<string, readonly string[]>();
  readonly #reports = new Map<string, readonly string[]>();

  constructor(options: JudgeOptions) {
    this.#options = options;
    this.#judgements = new Judgements(options.program, sendable(everythingPublished(options.feed)));
  }

  async judge(state: DiskState): Promise<Judged> {
    const digest = digestOf(state);
    const known = this.#known.get(digest);
    if (known !== undefined) return { faults: known, digest, isKnown: true };
    const { verdict: faults } = await this.#judgements.make((runner) => this.#faultsOf(state, runner));
    this.#known.set(digest, faults);
    return { faults, digest, isKnown: false };
  }

  /** Judges only the reported commits, without running the program. */
  async judgeReports(state: DiskState): Promise<readonly string[]> {
    const { commits, files, isCopyPublished } = state.reported;
    if (commits === 0 && files.size === 0 && !isCopyPublished) return [];
    const digest = digestOf(state);
    const known = this.#reports.get(digest);
    if (known !== undefined) return known;
    const { home, course } = this.#options;
    const { faults } = await this.#laidOut(state, () => reportFaults(home, state, course));
    this.#reports.set(digest, faults);
    return faults;
  }

  end(): Promise<void> {
    return this.#judgements.end();
  }

  #faultsOf(state: DiskState, runner: Runner): Promise<readonly string[]> {
    const { home, course, feed } = this.#options;
    return this.#laidOut(state, async () => {
      const { isTorn, faults } = await reportFaults(home, state, course);
      if (faults.length > 0) return faults;
      const ended = await runner.run(['once'], {
        ...course.settings(home),
        FEED_SYNC_BASE_URL: feed.baseUrl,
        FEED_SYNC_API_KEY: feed.apiKey,
      });
      if (ended.exitCode !== 0) return [`once ended with ${ended.exitCode}: ${ended.stdout}${ended.stderr}`];
      const mirror = join(home, course.mirror);
      const differing = await runner.differences(mirror);
      return [
        ...(course.mayQuarantine ? [] : quarantinedIn(home, isTorn)),
        ...differing,
        ...(await differencesOfCopy(join(home, course.copy), mirror, runner, differing)),
      ];
    });
  }

  async #laidOut<T>(state: DiskState, judged: () => Promise<T>): Promise<T> {
    const { home } = this.#options;
    try {
      layOut(home, state);
      return await judged();
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  }
}

async function reportFaults(home: string, state: DiskState, course: Course): Promise<Opened> {
  const opened = await openedFaults(join(home, course.mirror), state, course);
  const copy = await unusableCopy(join(home, course.copy), state, course);
  return { ...opened, faults: [...lostFiles(state), ...opened.faults, ...copy] };
}

function layOut(home: string, state: DiskState): void {
  mkdirSync(home);
  for (const [path, bytes] of keptFiles(state)) {
    const place = join(home, path);
    mkdirSync(bytes === null ? place : dirname(place), { recursive: true, mode: 0o700 });
    if (bytes !== null) writeFileSync(place, bytes, { mode: 0o600 });
  }
}

function lostFiles({ files, reported }: DiskState): readonly string[] {
  return [...reported.files].flatMap(([path, bytes]) => {
    const found = files.get(path);
    if (found === undefined || found === null) return [`${path} was reported, and is not there`];
    return found.equals(bytes) ? [] : [`${path} was reported, and has another content`];
  });
}

interface Opened {
  /** The end of the log was cut. */
  readonly isTorn: boolean;
  readonly faults: readonly string[];
}

/** No reader can open a mirror whose log has a torn end before feed-sync has. */
async function openedFaults(path: string, { files, reported }: DiskState, course: Course): Promise<Opened> {
  const { commits } = reported;
  if (!files.has(course.mirror)) {
    return {
      isTorn: false,
      faults: commits === 0 ? [] : [`${commits} commits were reported, and there is no mirror`],
    };
  }
  const found = await readVersions(path);
  if (typeof found !== 'string' || !TORN.test(found))
    return { isTorn: false, faults: lostFrom(found, reported) };
  const mirror = await mirrorIn(dirname(path));
  await mirror.has();
  await mirror.close();
  return { isTorn: true, faults: lostFrom(await readVersions(path), reported) };
}

function lostFrom(found: Versions | string, { versions, commits }: Reported): readonly string[] {
  if (commits === 0) return [];
  if (typeof found === 'string') return [`the mirror cannot be opened: ${found}`];
  return [
    ...(found.commits < commits ? [`${commits} commits were reported, and ${found.commits} are there`] : []),
    ...[...versions].flatMap(([dataset, version]) =>
      (found.versions.get(dataset) ?? 0) < version ? [`${dataset} was reported at ${version}`] : [],
    ),
  ];
}

async function unusableCopy(
  path: string,
  { files, reported }: DiskState,
  { copy }: Course,
): Promise<readonly string[]> {
  if (!files.has(copy)) return reported.isCopyPublished ? ['a copy was reported, and there is none'] : [];
  const found = await readVersions(path);
  return typeof found === 'string' ? [`the copy cannot be opened: ${found}`] : [];
}

/** Of a torn log the whole is kept beside the one that was cut. */
function quarantinedIn(home: string, isTorn: boolean): readonly string[] {
  return readdirSync(home, { recursive: true, encoding: 'utf8' }).flatMap((name) =>
    QUARANTINED.test(name) && !(isTorn && name.endsWith('.wal')) ? [`quarantined: ${name}`] : [],
  );
}

/** A copy with the bytes of the mirror has the same content. */
async function differencesOfCopy(
  copy: string,
  mirror: string,
  runner: Runner,
  ofMirror: readonly string[],
): Promise<readonly string[]> {
  const isWhole = [copy, mirror].every((path) => existsSync(path) && !existsSync(`${path}.wal`));
  const isSame = isWhole && readFileSync(copy).equals(readFileSync(mirror));
  const differing = isSame ? ofMirror : await runner.differences(copy);
  return differing.map((difference) => `copy: ${difference}`);
}

interface Versions {
  readonly versions: ReadonlyMap<string, number>;
  readonly commits: number;
}

/** Returns why the mirror cannot be read, where it cannot. */
async function readVersions(path: string): Promise<Versions | string> {
  try {
    const mirror = await openExactly(path);
    try {
      const rows = await mirror.rows('SELECT dataset_id, version::VARCHAR FROM feed_sync.datasets');
      const [[commits = '0'] = []] = await mirror.rows('SELECT count(*)::VARCHAR FROM feed_sync.commits');
      const versions = new Map(rows.map(([dataset, version]) => [dataset ?? '', Number(version)]));
      return { versions, commits: Number(commits) };
    } finally {
      mirror.close();
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
