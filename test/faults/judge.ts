/**
 * Asks `verify --deep` and `once` of a damaged installation, and judges. Right is: nothing is amiss, or `verify --deep` finds it and one
 * `once` mends it; no table is called equal that is not; no sound table is loaded again while the mirror stands.
 */

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Examined, examineFile } from '../../src/destination/duckdb/damage/examine.ts';
import type { Said } from '../support/command-line.ts';
import { downloadsOf } from '../support/expect-mirrored.ts';
import type { OpenCountyFeed } from '../support/open-county-feed.ts';
import type { Runner } from '../support/program-runner.ts';
import { type Fault, FILES } from './fault.ts';
import { GATED, type Installation, settingsIn } from './installation.ts';

export const VERDICTS = ['no effect', 'mended', 'tables', 'past', 'quarantined', 'waits', 'wrong'] as const;

export interface Verdict {
  readonly outcome: (typeof VERDICTS)[number];
  /** The faults, in words. */
  readonly faults: readonly string[];
}

/** Characters of what a command said. */
const MOST_SHOWN = 1_500;
const DAMAGED = 74;
const WRONG_USAGE = 64;
const WAITS = 75;
const DIFFERENT = 65;
/** An absence that no event has announced is confirmed by then. */
const WAIT_MS = 12 * 60_000;
/** In the name of a table that is kept as it was found. */
const KEPT = '__damaged';
const PAST = /^(?:archived|history)\./;
const MEMORY_BYTES = 256_000_000;
/** The exit codes by which a command says that something is amiss, which are not those of a bug or of a crash. */
const FINDING_CODES = [0, 65, 74, 75, 77];

export interface Judging {
  /** The folder of a copy of the damaged installation. */
  readonly home: string;
  /** Returns the folder of another copy. */
  readonly copy: () => string;
  readonly fault: Fault;
  readonly installation: Installation;
  readonly runner: Runner;
}

export async function judged(judging: Judging): Promise<Verdict> {
  const { home, fault, installation, runner } = judging;
  const { state, file } = fault;
  const { feed } = installation.county;
  const settings = settingsIn(home, feed);
  const run = (...words: readonly string[]): Promise<Said> => runner.run(words, settings);
  const found = await run('verify', '--deep');
  const faults = FINDING_CODES.includes(found.exitCode) ? [] : [`verify --deep: ${outputOf(found)}`];
  if (found.exitCode === 0 && state === 'ended') {
    faults.push(...(await differences(judging)).map((one) => `called equal: ${one}`));
  }
  feed.requests.clear();
  const approved = state === 'waiting' ? await approve(installation, runner, settings) : [];
  faults.push(...wrongApprovals(approved, file === 'staged'));
  let caughtUp = await run('once');
  const isPastReported = [caughtUp, ...approved].some(({ exitCode }) => exitCode === DAMAGED);
  // Content that the service does not have is reported once.
  if (caughtUp.exitCode === DAMAGED) caughtUp = await run('once');
  const isWaiting = file === 'checkpoint' && isRightWait(caughtUp);
  if (isWaiting) {
    faults.push(...(await wrongMeanwhile(judging, run)));
    caughtUp = await afterTheWait(feed.clock, () => run('once'));
  }
  if (caughtUp.exitCode !== 0)
    return { outcome: 'wrong', faults: [...faults, `once: ${outputOf(caughtUp)}`] };
  const asked = new Set<string | null>(installation.resynced[state] ?? []);
  const loaded = [...new Set(downloadsOf(feed))].filter((datasetId) => !asked.has(datasetId));
  const isQuarantined = readdirSync(join(home, 'data')).some((name) => name.includes('.corrupt-'));
  const left = { found, isPastReported, differences: await differences(judging) };
  faults.push(...(await unexcused(left, judging)));
  const again = await run('verify', '--deep');
  if (again.exitCode !== 0) faults.push(`verify --deep after once: ${outputOf(again)}`);
  if (!isQuarantined && file !== 'checkpoint') faults.push(...(await needless(loaded, judging)));
  const isSeen = found.exitCode !== 0 && state === 'ended';
  const seen = { faults, isQuarantined, isWaiting, isPastReported, loaded, isSeen };
  return { outcome: outcomeOf(seen), faults };
}

type Run = (...words: readonly string[]) => Promise<Said>;

/** Damage to the checkpoint may cost a wait, if `once` names each dataset that waits, and says from when on it helps to run it again. */
function isRightWait({ exitCode, stdout }: Said): boolean {
  const named = /^Waiting for the next catch-up:\n((?: {2}\S+: .+\n)+)/m.exec(stdout)?.[1] ?? '';
  const count = Number(/, (\d+) waiting\./.exec(stdout)?.[1] ?? 0);
  const isSaid = /^Running it again helps from .+ UTC on, in 1\d m \d+ s\.$/m.test(stdout);
  return exitCode === WAITS && isSaid && count > 0 && named.split('\n').length - 1 === count;
}

/** While a dataset waits, every table is right, and `verify --deep` says that the one that waits is not there yet. */
async function wrongMeanwhile(judging: Judging, run: Run): Promise<readonly string[]> {
  const different = (await differences(judging)).map((one) => `while a dataset waits: ${one}`);
  const verified = await run('verify', '--deep');
  if (verified.exitCode === DIFFERENT && / \d+ behind\.$/m.test(verified.stdout)) return different;
  return [...different, `verify --deep while a dataset waits: ${outputOf(verified)}`];
}

/** Other faults are judged at the time that it was. */
async function afterTheWait(clock: OpenCountyFeed['feed']['clock'], run: () => Promise<Said>): Promise<Said> {
  clock.advance(WAIT_MS);
  try {
    return await run();
  } finally {
    clock.advance(-WAIT_MS);
  }
}

interface Seen {
  readonly faults: readonly string[];
  readonly isQuarantined: boolean;
  /** Whether a dataset had to wait. */
  readonly isWaiting: boolean;
  readonly isPastReported: boolean;
  /** The tables that were loaded again though nobody had asked for it. */
  readonly loaded: readonly (string | null)[];
  readonly isSeen: boolean;
}

function outcomeOf(seen: Seen): Verdict['outcome'] {
  const { faults, isQuarantined, isWaiting, isPastReported, loaded, isSeen } = seen;
  if (faults.length > 0) return 'wrong';
  if (isWaiting) return 'waits';
  if (isQuarantined) return 'quarantined';
  if (isPastReported) return 'past';
  if (loaded.length > 0) return 'tables';
  return isSeen ? 'mended' : 'no effect';
}

/** What differs in the mirror and in the copy from what the feed has published. */
async function differences({ home, runner }: Judging): Promise<readonly string[]> {
  const different = async (path: string): Promise<readonly string[]> =>
    existsSync(path) ? runner.differences(path) : ['not there'];
  return [
    ...(await different(join(home, FILES.mirror))),
    ...(await different(join(home, FILES.copy))).map((one) => `the copy: ${one}`),
  ];
}

/** Lets every commit through that waits. */
async function approve(
  { approvals }: Installation,
  runner: Runner,
  settings: Readonly<Record<string, string>>,
): Promise<readonly Said[]> {
  const said: Said[] = [];
  for (const words of approvals) said.push(await runner.run(words, { ...settings, ...GATED }));
  return said;
}

/** Content that was staged can be fetched again. Of another table than it was judged with it waits anew (64). */
function wrongApprovals(approved: readonly Said[], isStaged: boolean): readonly string[] {
  const right = isStaged ? [0] : [...FINDING_CODES, WRONG_USAGE];
  return approved.flatMap((said) => (right.includes(said.exitCode) ? [] : `approve: ${outputOf(said)}`));
}

/** The tables of the mirror as they were damaged. */
async function examined({ copy }: Judging): Promise<Examined['tables']> {
  const damaged = copy();
  const { tables } = await examineFile({
    path: join(damaged, FILES.mirror),
    memoryLimitBytes: MEMORY_BYTES,
    temporaryDirectory: join(damaged, 'examining'),
  });
  return tables;
}

interface Left {
  /** By the first `verify --deep`. */
  readonly found: Said;
  /** Whether a command has ended with 74 once. */
  readonly isPastReported: boolean;
  readonly differences: readonly string[];
}

/**
 * Returns the differences that are left but for those of tables that the service does not have: they are kept as they were found, under
 * another name or in the mirror that was quarantined, and are reported.
 */
async function unexcused(
  { found, isPastReported, differences: all }: Left,
  judging: Judging,
): Promise<readonly string[]> {
  if (all.length === 0) return [];
  const tables = await examined(judging);
  const kept = tables.flatMap(({ name, state }) => (PAST.test(name) && state !== 'sound' ? name : []));
  if (!isPastReported && !kept.every((name) => found.stdout.includes(name))) return all;
  const names = [KEPT, ...kept.map((name) => name.replace(PAST, ''))];
  return all.filter((one) => !names.some((name) => one.includes(name)));
}

/**
 * Returns which sound tables were loaded again. One alone is not asked whether it was damaged. A table is not sound either whose record in
 * the catalog was altered: that an operator's resync is answered stands nowhere else.
 */
async function needless(loaded: readonly (string | null)[], judging: Judging): Promise<readonly string[]> {
  if (loaded.length < 2) return [];
  const tables = await examined(judging);
  const unsound = new Set(tables.flatMap(({ datasetId, state }) => (state === 'sound' ? [] : datasetId)));
  const { installation, fault, copy } = judging;
  const [before, damaged] = [
    await records(installation.states[fault.state], judging),
    await records(copy(), judging),
  ];
  const isAltered = (id: string | null): boolean => id !== null && before.get(id) !== damaged.get(id);
  const sound = loaded.filter((datasetId) => !unsound.has(datasetId) && !isAltered(datasetId));
  return sound.length > 1 ? [`loaded again: ${sound.join(', ')}`] : [];
}

/** By dataset id: what the catalog of an installation says of the table, and of the reloads that it answers. */
async function records(
  home: string,
  { installation, runner }: Judging,
): Promise<ReadonlyMap<string, string>> {
  const said = await runner.run(
    ['query', '--format', 'csv', RECORDS],
    settingsIn(home, installation.county.feed),
  );
  return new Map(said.stdout.split('\n').map((line) => [line.slice(0, line.indexOf(',')), line]));
}

const RECORDS = `SELECT dataset_id, concat(to_json(d), (SELECT string_agg(to_json(r) ORDER BY to_json(r)) FROM feed_sync.reloads AS r
  WHERE r.dataset_id = d.dataset_id)) FROM feed_sync.datasets AS d`;

function outputOf({ exitCode, stdout, stderr }: Said): string {
  const lines = `${stderr}\n${stdout}`.split('\n').filter((line) => !line.startsWith('{"level":"info"'));
  return `${exitCode}: ${lines.join('\n').trim().slice(0, MOST_SHOWN)}`;
}
