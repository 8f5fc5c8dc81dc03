/**
 * A folder in which the commands of a page are run as they stand there: `feed-sync` is the built program, the fixture feed is
 * the one that the page starts, and `/srv` and `/etc` of the page are folders below this one.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import process from 'node:process';
import { builtProgram } from './built-program.ts';
import { eventually } from './patience.ts';
import { projectRoot } from './source-tree.ts';

export interface Ran {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface RunOptions {
  /** Runs it on a terminal, and gives this answer there. */
  readonly answer?: string;
  /** Reads the text as its last argument; bash, if nothing else is named. */
  readonly program?: readonly string[];
}

export class CookbookWorld {
  readonly folder = mkdtempSync(join(tmpdir(), 'feed-sync-cookbook-'));
  readonly dataDirectory = join(this.folder, 'data');
  readonly environment: Record<string, string> = {};
  /** What stands in the page, and what takes its place here. */
  readonly substitutes = new Map<string, string>();
  #adminUrl = '';
  #feed: ChildProcess | null = null;

  constructor() {
    const bin = join(this.folder, 'bin');
    for (const name of ['bin', 'srv/feeds', 'etc/feed-sync', 'bucket', 'models']) {
      mkdirSync(join(this.folder, name), { recursive: true });
    }
    this.#script(join(bin, 'feed-sync'), `exec "${process.execPath}" "${builtProgram()}" "$@"`);
    // There is no systemd in a test: it writes down what it is asked to do.
    this.#script(join(bin, 'systemctl'), `echo "$*" >> "${join(this.folder, 'systemctl.txt')}"`);
    for (const place of ['/srv/', '/etc/feed-sync/'])
      this.substitutes.set(place, join(this.folder, place, '/'));
    Object.assign(this.environment, {
      PATH: [bin, process.env['PATH']].join(delimiter),
      HOME: this.folder,
      TZ: 'UTC',
      FEED_SYNC_DISK_RESERVE: '0MB',
      FEED_SYNC_LOG_LEVEL: 'warn',
      FEED_SYNC_DATA_DIR: this.dataDirectory,
      FEED_SYNC_HISTORY_DATASETS: 'us-az-cedarville-parcels',
      RCLONE_CONFIG_BUCKET_TYPE: 'alias',
      RCLONE_CONFIG_BUCKET_REMOTE: join(this.folder, 'bucket'),
    });
  }

  path(...names: readonly string[]): string {
    return join(this.folder, ...names);
  }

  /** The text of the page with the names of this folder. */
  here(text: string): string {
    let result = text;
    for (const [from, to] of this.substitutes) result = result.replaceAll(from, to);
    return result;
  }

  writeConfiguration(text: string): void {
    writeFileSync(this.path('feed-sync.yaml'), this.here(text));
  }

  /** A script of the page, at the place where the settings name it. */
  writeScript(path: string, text: string): void {
    writeFileSync(this.here(path), this.here(text));
    chmodSync(this.here(path), 0o755);
  }

  /** Starts the command of the page that serves the feed, and takes over the variables that it prints. */
  async serveFeed(command: string): Promise<void> {
    const child = spawn('bash', ['-c', `exec ${command}`], {
      cwd: projectRoot,
      env: process.env,
      detached: true,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#feed = child;
    let printed = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
    await eventually(() => {
      for (const name of ['FEED_SYNC_BASE_URL', 'FEED_SYNC_API_KEY']) {
        const [, value] = new RegExp(`^export ${name}=(.*)$`, 'm').exec(printed) ?? [];
        if (value === undefined) throw new Error(`The feed has not printed ${name}: ${printed}`);
        this.environment[name] = value;
      }
      this.#adminUrl = /^ *admin +(\S+)/m.exec(printed)?.[1] ?? '';
    });
  }

  /** An action of the feed's admin surface. */
  async admin(action: string, body: object): Promise<void> {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${this.#adminUrl}/${action}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`The feed refuses ${action}: ${await answer.text()}`);
  }

  /** Runs a block of the page in one shell. */
  async run(
    text: string,
    { answer, program = ['bash', '-euo', 'pipefail', '-c'] }: RunOptions = {},
  ): Promise<Ran> {
    const words = [...program, this.here(text)];
    const quoted = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
    const [command = '', ...rest] = answer === undefined ? words : ['script', '-qec', quoted, '/dev/null'];
    const child = spawn(command, rest, {
      cwd: this.folder,
      env: this.environment,
      stdio: [answer === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    child.stdin?.end(answer);
    const printed = { stdout: '', stderr: '' };
    child.stdout?.setEncoding('utf8').on('data', (part: string) => {
      printed.stdout += part;
    });
    child.stderr?.setEncoding('utf8').on('data', (part: string) => {
      printed.stderr += part;
    });
    const [exitCode] = await once(child, 'close');
    return { exitCode, ...printed };
  }

  /** What systemd was asked to do since the last time. */
  takeSystemdRequests(): readonly string[] {
    const path = this.path('systemctl.txt');
    appendFileSync(path, '');
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
    rmSync(path);
    return lines;
  }

  async remove(): Promise<void> {
    if (this.#feed?.pid !== undefined) {
      const closed = once(this.#feed, 'close');
      process.kill(-this.#feed.pid, 'SIGTERM');
      await closed;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }

  #script(path: string, line: string): void {
    writeFileSync(path, `#!/bin/sh\n${line}\n`);
    chmodSync(path, 0o755);
  }
}

/** A Python that has the package, or null. */
export function pythonWith(name: string): string | null {
  const places = ['', ...(process.env['PATH'] ?? '').split(delimiter).map((place) => `${place}/`)];
  const found = places.find(
    (place) => spawnSync(`${place}python3`, ['-c', `import ${name}`], { stdio: 'ignore' }).status === 0,
  );
  return found === undefined ? null : `${found}python3`;
}

export function isInstalled(command: string): boolean {
  return spawnSync('bash', ['-c', `command -v ${command}`], { stdio: 'ignore' }).status === 0;
}
