/**
 * Damages an installation, asks `verify --deep` and `once`, and judges. Right is: nothing is amiss, or `verify --deep` finds it and one
 * `once` mends it; no table is called equal that is not; no sound table is loaded again while the mirror stands.
 */

import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { examineFile } from '../../src/destination/duckdb/examine.ts';
import { scriptPath } from '../support/child.ts';
import type { Said } from '../support/command-line.ts';
import { downloadsOf } from '../support/expect-mirrored.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { everythingPublished } from '../support/published.ts';
import { damage, type Fault, FILES } from './fault.ts';
import { type Installation, settingsIn } from './installation.ts';
import { runCommand } from './runner.ts';

export const OUTCOMES = ['no effect', 'mended', 'tables', 'past', 'quarantined', 'wrong'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface Judged {
  readonly outcome: Outcome;
  readonly done: string;
  /** What was wrong, in words. */
  readonly faults: readonly string[];
}

const READ_WHOLE = scriptPath('read-whole-child.ts');
/** Characters of what a command said. */
const MOST_SHOWN = 1_500;
const DAMAGED = 74;
/** In the name of a table that is kept as it was found. */
const KEPT = '__damaged';
const PAST = /^(?:archived|history)\./;
const MEMORY_BYTES = 256_000_000;
/** The exit codes by which a command says that something is amiss, which are not those of a bug or of a crash. */
const FINDING_CODES = [0, 65, 74, 75, 77];

/** `keep`: the folder that takes the damaged installation where something was wrong; null: none. */
export async function judged(fault: Fault, installation: Installation, keep: string | null): Promise<Judged> {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'feed-sync-faults-')));
  try {
    cpSync(installation.states[fault.state], home, { recursive: true });
    const done = damage(fault, home, installation.earlier);
    const kept = keep === null ? null : join(keep, String(fault.seed));
    if (kept !== null) cpSync(home, kept, { recursive: true });
    const result = await judgedIn(home, fault, installation);
    if (kept !== null && result.outcome !== 'wrong') rmSync(kept, { recursive: true });
    return { done, ...result };
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

async function judgedIn(
  home: string,
  { state, file }: Fault,
  { county: { feed }, program }: Installation,
): Promise<Omit<Judged, 'done'>> {
  const run = (...words: readonly string[]): Promise<Said> =>
    runCommand({ program, feed }, words, settingsIn(home));
  const expected = everythingPublished(feed);
  const different = async (path: string): Promise<readonly string[]> => {
    if (!existsSync(path)) return ['not there'];
    // Damage may crash who reads it.
    const { status, signal, stderr } = spawnSync(process.execPath, [READ_WHOLE, path], { encoding: 'utf8' });
    if (status !== 0) return [`cannot be read: ${signal ?? stderr.slice(0, MOST_SHOWN)}`];
    return mirrorDifferences(path, expected).catch((error: unknown) => [String(error)]);
  };
  const [mirror, copy] = [join(home, FILES.mirror), join(home, FILES.copy)];
  const faults: string[] = [];
  const examining = {
    path: mirror,
    memoryLimitBytes: MEMORY_BYTES,
    temporaryDirectory: join(home, 'examining'),
  };
  const examined = await examineFile(examining);
  const unsound = new Set(examined.tables.flatMap((one) => (one.state === 'sound' ? [] : one.datasetId)));
  const found = await run('verify', '--deep');
  if (!FINDING_CODES.includes(found.exitCode)) faults.push(`verify --deep: ${told(found)}`);
  if (found.exitCode === 0 && state === 'ended') {
    faults.push(...(await different(mirror)).map((one) => `called equal: ${one}`));
    faults.push(...(await different(copy)).map((one) => `called equal, the copy: ${one}`));
  }
  feed.requests.clear();
  let caughtUp = await run('once');
  const isPastTold = caughtUp.exitCode === DAMAGED;
  // What the service does not have is told once.
  if (isPastTold) caughtUp = await run('once');
  if (caughtUp.exitCode !== 0) return wrong([...faults, `once: ${told(caughtUp)}`]);
  const loaded = new Set(downloadsOf(feed));
  // A table that the service does not have is kept as it was found: under another name, or in the mirror that was quarantined.
  const kept = examined.tables.flatMap(({ name, state: how }) =>
    PAST.test(name) && how !== 'sound' ? name : [],
  );
  const isTold = isPastTold || kept.every((name) => found.stdout.includes(name));
  const isOfKept = (one: string): boolean =>
    isTold && [KEPT, ...kept.map((name) => name.replace(PAST, ''))].some((name) => one.includes(name));
  faults.push(
    ...(await different(mirror)).filter((one) => !isOfKept(one)),
    ...(await different(copy)).filter((one) => !isOfKept(one)).map((one) => `the copy: ${one}`),
  );
  const again = await run('verify', '--deep');
  if (again.exitCode !== 0) faults.push(`verify --deep after once: ${told(again)}`);
  const isQuarantined = readdirSync(join(home, 'data')).some((name) => name.includes('.corrupt-'));
  const needless = [...loaded].filter((datasetId) => !unsound.has(datasetId));
  if (!isQuarantined && file !== 'checkpoint' && needless.length > 1) {
    faults.push(`loaded again: ${needless.join(', ')}`);
  }
  if (faults.length > 0) return wrong(faults);
  if (isQuarantined) return { outcome: 'quarantined', faults };
  if (isPastTold) return { outcome: 'past', faults };
  if (loaded.size > 0) return { outcome: 'tables', faults };
  const isSeen = found.exitCode !== 0 && state === 'ended';
  return { outcome: isSeen ? 'mended' : 'no effect', faults };
}

function wrong(faults: readonly string[]): Omit<Judged, 'done'> {
  return { outcome: 'wrong', faults };
}

function told({ exitCode, stdout, stderr }: Said): string {
  const lines = `${stderr}\n${stdout}`.split('\n').filter((line) => !line.startsWith('{"level":"info"'));
  return `${exitCode}: ${lines.join('\n').trim().slice(0, MOST_SHOWN)}`;
}
