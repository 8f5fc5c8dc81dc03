/** Listens on the address or the unix socket of `status.listen`, and closes in time. */

import { lstat } from 'node:fs/promises';
import type { Server } from 'node:http';
import { connect, createServer, type Server as NetServer } from 'node:net';
import type { ListenAddress } from '../../configuration/configuration.ts';
import { isLoopback } from '../../configuration/value-types.ts';
import { assert } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import { remove, systemCode, systemReason } from '../../lib/files.ts';
import { ConfigurationError } from '../../model/errors.ts';
import { CLOSE_TIMEOUT_MS } from './limits.ts';

export interface Bound {
  /** `http://127.0.0.1:9464` or `unix:/run/feed-sync/status.sock`. */
  readonly url: string;
  /** The clients that can connect. A loopback address is also reached by a web page that a browser on this machine has open. */
  readonly reach: 'loopback' | 'socket' | 'machines';
}

/**
 * Listens at the address. The umask of the process says who may connect to a socket.
 * @throws ConfigurationError when the address cannot be listened on, with the address and the reason.
 */
export async function listenOn(server: Server, listen: ListenAddress): Promise<Bound> {
  if ('path' in listen) {
    await removeStaleSocket(listen.path);
    await started(server, { path: listen.path }, listen.path);
    return { url: `unix:${listen.path}`, reach: 'socket' };
  }
  await started(server, { ...listen, exclusive: true }, `${listen.host} port ${listen.port}`);
  const bound = server.address();
  assert(bound !== null && typeof bound === 'object', 'a server that listens on a port has an address');
  const host = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  return { url: `http://${host}:${bound.port}`, reach: isLoopback(bound.address) ? 'loopback' : 'machines' };
}

/**
 * Listens on a host and a port for a moment. A socket is not tried, because its file would appear.
 * @throws ConfigurationError as `listenOn`
 */
export async function tryListening(listen: ListenAddress): Promise<void> {
  if ('path' in listen) return;
  const server = createServer();
  await started(server, { ...listen, exclusive: true }, `${listen.host} port ${listen.port}`);
  await new Promise((resolve) => server.close(resolve));
}

type Where = { readonly path: string } | { readonly host: string; readonly port: number; exclusive: true };

function started(server: Server | NetServer, where: Where, shown: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(cannotListen(error, shown)));
    server.listen(where, () => {
      server.removeAllListeners('error');
      resolve();
    });
  });
}

/** A process that was killed leaves the file of its socket behind. Another process's socket, and a file of another kind, stay. */
async function removeStaleSocket(path: string): Promise<void> {
  const found = await lstat(path).catch(() => null);
  if (found?.isSocket() === true && (await isStale(path))) await remove('daemon.remove-stale-socket', path);
}

function isStale(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(false);
    });
    probe.once('error', (error) => resolve(systemCode(error) === 'ECONNREFUSED'));
  });
}

const HINTS: ReadonlyMap<string | null, string> = new Map([
  ['EADDRINUSE', 'Something else listens there, or a file is in the way.'],
  [
    'EACCES',
    'This user may not: ports below 1024 are not for every user, and a socket needs a folder to write in.',
  ],
  ['EADDRNOTAVAIL', 'This machine has no such address.'],
  ['EINVAL', 'The path of a socket has 107 bytes at most.'],
  ['ENOENT', 'The folder of the socket does not exist.'],
  ['ENOTFOUND', 'Nobody knows this name.'],
]);

/** Blames the configuration: no other process of feed-sync can have the address, because this one has the lock of the data directory. */
function cannotListen(error: Error, shown: string): ConfigurationError {
  const why = HINTS.get(systemCode(error)) ?? '';
  return new ConfigurationError(
    `The status server cannot listen on ${shown}: ${systemReason(error)}. ${why}`.trim(),
    { hint: 'Give another address in status.listen, or off.', cause: error },
  );
}

/** Closes the server within a time. Never rejects. */
export async function closeInTime(server: Server, clock: Clock): Promise<void> {
  const done = new AbortController();
  const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
  const late = clock.sleep(CLOSE_TIMEOUT_MS, done.signal).then(
    () => server.closeAllConnections(),
    () => {},
  );
  await closed;
  done.abort();
  await late;
}
