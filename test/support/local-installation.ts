/**
 * An installation that `doctor` checks in this process, on real files and the real network. After each run the
 * secrets are searched for in all that was said, and whether anything on the disk has changed.
 */

import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import type { Context } from '../../src/cli/context.ts';
import type { CheckName, Finding, FindingState } from '../../src/cli/doctor/check.ts';
import type { Diagnosis } from '../../src/cli/doctor/doctor.ts';
import { start } from '../../src/cli/program.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { collector } from './collector.ts';
import { IDLE_PROCESS } from './idle-process.ts';
import { type InstallationPaths, installationPaths } from './installation-paths.ts';
import { secretsInText } from './secret-search.ts';
import { unwatchedTerminal } from './unwatched-terminal.ts';

export interface LocalInstallationOptions {
  readonly feed?: { readonly baseUrl: string; readonly apiKey: string };
  readonly environment?: Readonly<Record<string, string>>;
  /** What of the world outside is other than it is. */
  readonly context?: Partial<Context>;
  /** Beside the API key. */
  readonly secrets?: readonly string[];
}

export interface LocalInstallation extends InstallationPaths {
  readonly environment: Record<string, string | undefined>;
  /** Runs any command. */
  run(
    ...words: readonly string[]
  ): Promise<{ readonly exitCode: number; readonly stdout: string; readonly stderr: string }>;
  /** Runs doctor with `words`, as a program. */
  diagnose(...words: readonly string[]): Promise<InstallationDiagnosis>;
  /** Runs doctor as an operator does, and returns its text. */
  reported(): Promise<string>;
}

export interface InstallationDiagnosis extends Diagnosis {
  /** The findings of a check. */
  of(check: CheckName): readonly Finding[];
  /** The findings in that state, as `check about`. */
  all(state: FindingState): readonly string[];
}

/** Without a feed it has neither address nor key. */
export function localInstallation({
  feed,
  environment = {},
  context = {},
  secrets = [],
}: LocalInstallationOptions = {}): LocalInstallation {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'feed-sync-installation-')));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const paths = installationPaths(home);
  const variables: Record<string, string | undefined> = {
    ...(feed === undefined ? {} : { FEED_SYNC_BASE_URL: feed.baseUrl, FEED_SYNC_API_KEY: feed.apiKey }),
    FEED_SYNC_DATA_DIR: paths.dataDirectory,
    FEED_SYNC_DISK_RESERVE: '0MB',
    FEED_SYNC_LOG_LEVEL: 'silent',
    // Nothing else can have it: a daemon that happens to run on this machine is no finding.
    FEED_SYNC_STATUS_LISTEN: '127.0.0.1:0',
    ...environment,
  };
  const run = async (...words: readonly string[]) => {
    const [stdout, stderr] = [collector(), collector()];
    const exitCode = await start(words, '1.2.3', {
      terminal: unwatchedTerminal({ stdout, stderr, width: 120 }),
      environment: variables,
      workingDirectory: home,
      machine: { memoryBytes: 4e9, constrainedMemoryBytes: 0, heapBytes: 2e9, cores: 2 },
      identity: { pid: process.pid, host: 'here', uid: process.getuid?.() ?? null },
      runtime: { nodeVersion: '24.0.0', leastNodeVersion: '24.0.0', operatingSystem: 'Linux 6.0 x64' },
      readFile: (path) => readFileSync(path, 'utf8'),
      clock: systemClock,
      random: { next: () => 0.5 },
      signal: new AbortController().signal,
      ...IDLE_PROCESS,
      readStandardInput: async () => '',
      ...context,
    });
    const said = { exitCode, stdout: stdout.text(), stderr: stderr.text() };
    const hidden = [...(feed === undefined ? [] : [feed.apiKey]), ...secrets];
    for (const secret of hidden) expect(secretsInText(secret, said.stdout + said.stderr)).toEqual([]);
    return said;
  };
  return {
    ...paths,
    environment: variables,
    run,
    async diagnose(...words) {
      const { exitCode, stdout } = await unchanged(home, () => run('doctor', '--json', ...words));
      const diagnosis = withoutOwnDisk(JSON.parse(stdout));
      expect(diagnosis.exitCode).toBe(exitCode);
      return { ...diagnosis, ...questionsTo(diagnosis) };
    },
    async reported() {
      const { stdout, stderr } = await unchanged(home, () => run('doctor'));
      expect(stderr).toBe('');
      return stdout;
    },
  };
}

function questionsTo({ checks }: Diagnosis): Pick<InstallationDiagnosis, 'of' | 'all'> {
  return {
    of: (name) => checks.find(({ check }) => check === name)?.findings ?? [],
    all: (state) =>
      checks.flatMap(({ check, findings }) =>
        findings.filter((one) => one.state === state).map(({ about }) => `${check} ${about}`),
      ),
  };
}

/** The disk that the tests themselves run on may be an overlay or in memory: doctor warns of it, rightly. */
function withoutOwnDisk(diagnosis: Diagnosis): Diagnosis {
  const isOwnDisk = ({ found }: Finding): boolean => /^It lies on (?:overlay|tmpfs|9p|FUSE)/.test(found);
  const checks = diagnosis.checks.map(({ check, findings }) => ({
    check,
    findings: findings.filter((one) => !isOwnDisk(one)),
  }));
  const left = checks.reduce((sum, { findings }) => sum + findings.length, 0);
  const all = diagnosis.checks.reduce((sum, { findings }) => sum + findings.length, 0);
  return { ...diagnosis, checks, warnings: diagnosis.warnings - (all - left) };
}

/** What `work` gives, which must leave the folder as it is. */
async function unchanged<T>(folder: string, work: () => Promise<T>): Promise<T> {
  const before = contentOf(folder);
  const result = await work();
  expect(contentOf(folder), 'doctor changes nothing').toEqual(before);
  return result;
}

/** The files below a folder: names, sizes, modes and times of change. */
function contentOf(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true }).map((entry) => {
    const path = join(entry.parentPath, entry.name);
    const { size, mode, mtimeMs } = statSync(path);
    return `${path} ${size} ${mode} ${mtimeMs}`;
  });
}
