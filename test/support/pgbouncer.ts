/** PgBouncer in transaction mode before a server of a test, reachable by a socket in a folder of its own. */

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { statement, userOfServer } from '../../fixtures/postgres-server.ts';
import { PATIENCE_MS } from './patience.ts';

const PROGRAM = '/usr/sbin/pgbouncer';
export const HAS_PGBOUNCER = existsSync(PROGRAM);

const PORT = 6432;

export interface Pooler {
  /** The address of the same database by way of the pooler. */
  readonly address: string;
  /** Ends the pooler at once, with all connections, and starts it again. */
  restart(): Promise<void>;
}

/** `address` is that of a database by a socket. Is ended when the test has finished. */
export async function pgbouncer(address: string): Promise<Pooler> {
  const home = await mkdtemp(join(tmpdir(), 'feed-sync-pgbouncer-'));
  const { uid, gid } = await userOfServer();
  await chmod(home, 0o755);
  if (uid !== undefined) await chown(home, uid, gid);
  const server = new URL(address.replace('@/', '@socket/'));
  const configuration = [
    '[databases]',
    `* = host=${server.searchParams.get('host')}`,
    '[pgbouncer]',
    `unix_socket_dir = ${home}`,
    `listen_port = ${PORT}`,
    'pool_mode = transaction',
    'auth_type = trust',
    `auth_file = ${join(home, 'users')}`,
    'max_client_conn = 100',
    'default_pool_size = 10',
  ];
  await writeFile(join(home, 'users'), `"${server.username}" ""\n`);
  await writeFile(join(home, 'pgbouncer.ini'), `${configuration.join('\n')}\n`);
  const own = `postgres://${server.username}:${server.password}@${server.pathname}?host=${encodeURIComponent(home)}&port=${PORT}`;
  const start = async () => {
    const child = spawn(PROGRAM, ['--quiet', join(home, 'pgbouncer.ini')], { uid, gid, stdio: 'ignore' });
    const deadline = performance.now() + PATIENCE_MS;
    while ((await statement(own, 'SELECT 1').catch(() => null)) === null) {
      if (performance.now() > deadline) throw new Error('PgBouncer does not answer');
      await sleep(50);
    }
    return child;
  };
  let child = await start();
  const end = async (): Promise<void> => {
    const closed = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await closed;
    // The socket of a killed pooler would refuse the next one.
    await rm(join(home, `.s.PGSQL.${PORT}`), { force: true });
  };
  onTestFinished(async () => {
    await end();
    await rm(home, { recursive: true, force: true });
  });
  return {
    address: own,
    async restart() {
      await end();
      child = await start();
    },
  };
}
