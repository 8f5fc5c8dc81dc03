/** F60: the status server under load and among clients that mean no good; its token and its socket. */

import { mkdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { silentNotifier } from '../../src/daemon/notify.ts';
import {
  MAX_CONNECTIONS,
  MAX_SHARED_FOR_MS,
  MAX_WAITING_REQUESTS,
  SEND_TIMEOUT_MS,
  SHARED_FOR_MS,
  SHARED_PER_MAKING,
} from '../../src/daemon/server/limits.ts';
import { Standby } from '../../src/daemon/server/standby.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { type LogFields, silentLog } from '../../src/lib/log.ts';
import { ConfigurationError, StorageError } from '../../src/model/errors.ts';
import { temporaryPath } from '../support/checkpoint-files.ts';
import { eventually } from '../support/patience.ts';
import { ask, converse, serve } from '../support/status-server.ts';
import { SteppedClock } from '../support/stepped-clock.ts';

const STATUS = 'GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n';
/** More than the system keeps for a reader that does not read. */
const MUCH = 50_000_000;

/** A report that waits until the test lets it be made. */
function pendingStatus() {
  const made = Promise.withResolvers<unknown>();
  const asked = Promise.withResolvers<void>();
  let makings = 0;
  const status = (): Promise<unknown> => {
    makings += 1;
    asked.resolve();
    return made.promise;
  };
  return {
    status,
    asked: asked.promise,
    make: () => made.resolve({ made: makings }),
    makings: () => makings,
  };
}

/** Connections that have sent `bytes`. */
async function connected(url: string, count: number, bytes = ''): Promise<readonly Socket[]> {
  const { hostname, port } = new URL(url);
  const sockets = Array.from({ length: count }, () => connect(Number(port), hostname));
  onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
  for (const socket of sockets) socket.on('error', () => {});
  await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
  for (const socket of sockets) socket.write(bytes);
  return sockets;
}

describe('F60: many requests at once', () => {
  it('F60 answers many requests with one report, and liveness before any queued report', async () => {
    const pending = pendingStatus();
    const { url } = await serve({ status: pending.status });
    const answers: string[] = [];
    const sockets = await connected(url, MAX_CONNECTIONS - 1, STATUS.repeat(MAX_WAITING_REQUESTS));
    for (const socket of sockets) socket.on('data', (chunk: Buffer) => void answers.push(chunk.toString()));
    await pending.asked;
    expect((await ask(`${url}/livez`)).status).toBe(200);
    expect((await ask(`${url}/readyz`)).status).toBe(200);
    expect(answers).toEqual([]);
    pending.make();
    const expected = sockets.length * MAX_WAITING_REQUESTS;
    await eventually(() => expect(answers.join('').match(/^HTTP\/1\.1 200 /gm)).toHaveLength(expected));
    expect(pending.makings()).toBe(1);
  });

  it('F60 sends a large answer whole, though a part at a time, and no body where none is asked for', async () => {
    const report = { much: 'x'.repeat(MUCH / 10), end: 'the end' };
    const { url } = await serve({ status: async () => report });
    const { headers, text } = await ask(`${url}/status`);
    expect(JSON.parse(text)).toEqual(report);
    const head = await ask(`${url}/status`, { method: 'HEAD' });
    expect([head.status, head.headers['content-length'], head.text]).toEqual([
      200,
      headers['content-length'],
      '',
    ]);
  });

  it('F60 makes a new report after a second, and answers 304 for the present one', async () => {
    const clock = new SteppedClock();
    let makings = 0;
    const { url } = await serve({ clock, status: async () => ({ makings: ++makings }) });
    const first = await ask(`${url}/status`);
    const headers = { 'if-none-match': String(first.headers['etag']) };
    expect(await ask(`${url}/status`, { headers })).toMatchObject({ status: 304, text: '' });
    clock.pass(SHARED_FOR_MS);
    const second = await ask(`${url}/status`, { headers });
    expect([second.status, JSON.parse(second.text)]).toEqual([200, { makings: 2 }]);
  });

  it.each([
    [10, SHARED_FOR_MS],
    [200, 200 * SHARED_PER_MAKING],
    [60_000, MAX_SHARED_FOR_MS],
  ])(
    'F60 shares an answer that took %i ms for %i ms, so that answers leave time for the loop',
    async (takesMs, sharedForMs) => {
      const clock = new SteppedClock();
      let makings = 0;
      const status = async () => {
        clock.pass(takesMs);
        return { makings: ++makings };
      };
      const { url } = await serve({ clock, status });
      await ask(`${url}/status`);
      clock.pass(sharedForMs - 1);
      await ask(`${url}/status`);
      expect(makings).toBe(1);
      clock.pass(1);
      await ask(`${url}/status`);
      expect(makings).toBe(2);
    },
  );

  it('F60 answers readiness without reading the stores', async () => {
    const { url, observed } = await serve();
    observed.current = new StorageError('The checkpoint cannot be read.');
    expect((await ask(`${url}/readyz`)).status).toBe(200);
    expect((await ask(`${url}/healthz`)).status).toBe(500);
  });

  it('F60 closes a connection that sends more requests than may wait', async () => {
    const pending = pendingStatus();
    const { url } = await serve({ status: pending.status });
    expect(await converse(url, STATUS.repeat(1_200)).catch(() => '')).toBe('');
    expect(pending.makings()).toBeLessThanOrEqual(1);
    pending.make();
    expect((await ask(`${url}/status`)).status).toBe(200);
  });

  it('F60 many requests do not keep the server from its end: queued requests are not answered any more', async () => {
    const pending = pendingStatus();
    const { url, server } = await serve({ clock: new SteppedClock(), status: pending.status });
    const answer = converse(url, STATUS.repeat(MAX_WAITING_REQUESTS));
    await pending.asked;
    const closing = server.close();
    pending.make();
    await closing;
    expect((await answer).match(/^HTTP\/1\.1 /gm)).toHaveLength(1);
  });
});

describe('F60: large answers', () => {
  const LIVEZ = 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n';
  const much = { much: 'x'.repeat(MUCH / 10) };

  /** What a client reads that begins with `STATUS`; `then` is called with its first bytes. */
  async function readOf(url: string, then: (socket: Socket) => void): Promise<string> {
    const [socket] = await connected(url, 1, STATUS);
    const chunks: Buffer[] = [];
    socket?.once('data', () => then(socket));
    socket?.on('data', (chunk: Buffer) => void chunks.push(chunk));
    await new Promise((resolve) => socket?.once('close', resolve));
    return Buffer.concat(chunks).toString();
  }

  it('F60 answers all requests of a client that says that it has no more', async () => {
    const { url } = await serve({ status: async () => much });
    const read = await readOf(url, (socket) => void socket.end(LIVEZ));
    expect(read.length).toBeGreaterThan(MUCH / 10);
    expect(read.match(/^HTTP\/1\.1 200 /gm)).toHaveLength(2);
    expect(read).toMatch(/"reasons": \[\]\s+\}\s*$/);
  });

  it('F60 closes the connection of an answer that it was sending as its end began', async () => {
    const { url, server } = await serve({ clock: new SteppedClock(), status: async () => much });
    let closing: Promise<void> | undefined;
    const read = await readOf(url, (socket) => {
      closing = server.close();
      socket.on('data', () => {
        if (socket.bytesRead > MUCH / 10) socket.write(LIVEZ);
      });
    });
    await closing;
    expect(read.length).toBeGreaterThan(MUCH / 10);
    expect(read.match(/^HTTP\/1\.1 200 /gm)).toHaveLength(1);
  });
});

describe('F60: connections that do not end', () => {
  it('F60 an instance that stands by has a place for one more connection, too', async () => {
    const listens = Promise.withResolvers<string>();
    const log = { ...silentLog, info: ({ url }: LogFields) => void (url && listens.resolve(String(url))) };
    const listen = { host: '127.0.0.1', port: 0 };
    const standby = new Standby({ listen, notifier: silentNotifier, clock: systemClock, log });
    onTestFinished(() => standby.end());
    standby.note('another instance');
    const url = await listens.promise;
    const [first] = await connected(url, MAX_CONNECTIONS, 'GET /livez HTTP/1.1\r\nX-Slow: ');
    expect((await ask(`${url}/livez`)).status).toBe(200);
    await eventually(() => expect(first?.closed).toBe(true));
  });

  it('F60 drops the connection that has been without an answer for longest for a new one', async () => {
    const { url } = await serve();
    const [first, ...others] = await connected(url, MAX_CONNECTIONS, 'GET /livez HTTP/1.1\r\nX-Slow: ');
    expect((await ask(`${url}/livez`)).status).toBe(200);
    await eventually(() => expect(first?.closed).toBe(true));
    expect(others.filter(({ closed }) => closed)).toEqual([]);
  });

  it('F60 drops a connection that takes too long to read, however steadily it reads', async () => {
    const clock = new SteppedClock();
    const { url } = await serve({ clock, status: async () => ({ much: 'x'.repeat(MUCH) }) });
    const [socket] = await connected(url, 1, STATUS);
    await new Promise((resolve) => socket?.once('readable', resolve));
    clock.pass(SEND_TIMEOUT_MS);
    socket?.resume();
    await eventually(() => expect(socket?.closed).toBe(true));
    expect(socket?.bytesRead).toBeLessThan(MUCH);
  });
});

describe('the token', () => {
  const TOKEN = 'a-token-of-the-status-server';
  const basic = (password: string) => `Basic ${Buffer.from(`anybody:${password}`).toString('base64')}`;

  it.each([
    ['no header', {}, 401],
    ['another token', { authorization: 'Bearer another' }, 401],
    ['the token', { authorization: `Bearer ${TOKEN}` }, 200],
    ['the token as a password', { authorization: basic(TOKEN) }, 200],
    ['another password', { authorization: basic('another') }, 401],
  ])('only /status demands the token, and answers %s rightly', async (_, headers, expected) => {
    const { url } = await serve({ token: { file: '/token', readFile: () => `${TOKEN}\n` } });
    const { status, text } = await ask(`${url}/status`, { headers });
    expect(status).toBe(expected);
    expect(text).not.toContain(TOKEN);
    for (const path of ['/livez', '/healthz', '/metrics']) {
      expect((await ask(`${url}${path}`)).status).toBe(200);
    }
  });

  it.each(['', 'short', 'two words of a token', 'x'.repeat(2_000)])('refuses %j as a token', async (text) => {
    const started = serve({ token: { file: '/token', readFile: () => text } });
    await expect(started).rejects.toThrow(ConfigurationError);
    await expect(started).rejects.toThrow('The file /token of status.tokenFile holds no token.');
  });
});

describe('a unix socket', () => {
  /** The status of `/livez`, by the socket. */
  function livez(path: string): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      const asking = request({ socketPath: path, path: '/livez' }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      asking.on('error', reject);
      asking.end();
    });
  }

  it('listens on a unix socket where a killed process left its own, and removes it at its end', async () => {
    const path = temporaryPath('status.sock');
    const left = createServer().listen(`${path}.made`);
    renameSync(`${path}.made`, path);
    await new Promise((resolve) => void left.close(resolve));
    const { server } = await serve({ listen: { path } });
    expect([server.url, server.isOpen]).toEqual([`unix:${path}`, false]);
    expect(await livez(path)).toBe(200);
    await expect(serve({ listen: { path } })).rejects.toThrow(/EADDRINUSE/);
    expect(await livez(path)).toBe(200);
    await server.close();
    expect(statSync(path, { throwIfNoEntry: false })).toBeUndefined();
  });

  it('takes the place of no other file with its socket, and needs its folder', async () => {
    const file = temporaryPath('file');
    const folder = dirname(file);
    writeFileSync(file, 'mine');
    mkdirSync(join(folder, 'folder'));
    for (const path of [file, join(folder, 'folder')]) {
      await expect(serve({ listen: { path } })).rejects.toThrow(/EADDRINUSE.*or a file is in the way/);
    }
    await expect(serve({ listen: { path: join(folder, 'none', 'sock') } })).rejects.toThrow(
      ConfigurationError,
    );
    expect(statSync(file).size).toBe(4);
  });
});
