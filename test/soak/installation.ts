/** The program on a data directory of its own, as a process that is killed when the soak says so. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { builtProgram } from '../support/built-program.ts';
import { QUICK_SETTINGS } from '../support/quick-settings.ts';
import { steered } from '../support/steered-process.ts';

const MAIN = builtProgram();
/** What an installation consists of where nothing is under way. The log of the mirror goes with the next commit. */
const KEPT = [
  'data/checkpoint.sqlite',
  'data/lock.sqlite',
  'data/mirror.duckdb',
  'data/mirror.duckdb.wal',
  'out/copy.duckdb',
];

export interface End {
  /** Null where it was killed. */
  readonly exitCode: number | null;
  /** What it had written to both outputs. */
  readonly printed: string;
  /** The last point of a durable effect that it passed: `before destination.commit`; null: none yet. */
  readonly lastPoint: string | null;
  readonly durationMs: number;
}

export class SoakedInstallation {
  readonly home = realpathSync(mkdtempSync(join(tmpdir(), 'feed-sync-soak-')));
  readonly mirrorPath = join(this.home, 'data', 'mirror.duckdb');
  readonly copyPath = join(this.home, 'out', 'copy.duckdb');
  readonly #environment: Readonly<Record<string, string | undefined>>;

  constructor(feed: { readonly baseUrl: string; readonly apiKey: string }) {
    mkdirSync(join(this.home, 'work'));
    this.#environment = {
      PATH: process.env['PATH'],
      HOME: this.home,
      TZ: 'UTC',
      FEED_SYNC_BASE_URL: feed.baseUrl,
      FEED_SYNC_API_KEY: feed.apiKey,
      FEED_SYNC_DATA_DIR: join(this.home, 'data'),
      FEED_SYNC_DESTINATION_PUBLISH: this.copyPath,
      FEED_SYNC_DESTINATION_PUBLISH_EVERY: '1s',
      FEED_SYNC_STATUS_LISTEN: 'off',
      ...QUICK_SETTINGS,
    };
  }

  /** Runs a command to its end, or until SIGKILL ends it after so long. */
  async run(command: 'run' | 'once', schemaChanges: string, killAfterMs: number | null): Promise<End> {
    const recordTo = join(this.home, 'work', 'record');
    rmSync(recordTo, { force: true });
    const startedMs = performance.now();
    const child = spawn(process.execPath, [MAIN, command], {
      cwd: join(this.home, 'work'),
      env: { ...this.#environment, FEED_SYNC_SCHEMA_CHANGES: schemaChanges, ...steered({ recordTo }) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
      });
    }
    const closed = once(child, 'close');
    if (killAfterMs !== null) {
      const waiting = new AbortController();
      await Promise.race([sleep(killAfterMs, undefined, { signal: waiting.signal }).catch(() => {}), closed]);
      waiting.abort();
      child.kill('SIGKILL');
    }
    const [exitCode] = await closed;
    return { exitCode, printed, lastPoint: lastLine(recordTo), durationMs: performance.now() - startedMs };
  }

  /** Files that should not be there when nothing is under way. */
  leftovers(): readonly string[] {
    return readdirSync(this.home, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(this.home, join(entry.parentPath, entry.name)))
      .filter((path) => !KEPT.includes(path) && path !== 'work/record');
  }

  remove(): void {
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** A process that was killed very early has recorded nothing. */
function lastLine(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trimEnd().split('\n').at(-1) || null;
  } catch {
    return null;
  }
}
