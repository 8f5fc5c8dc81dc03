/** The status server over real HTTP: what each address answers, what it refuses, and that nothing it meets harms it. */

import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import {
  CLOSE_TIMEOUT_MS,
  LOOP_STUCK_AFTER_MS,
  MAX_HEADER_BYTES,
  SHARED_FOR_MS,
} from '../../src/daemon/server/limits.ts';
import { ConfigurationError, StorageError } from '../../src/model/errors.ts';
import { daemonState, datasetState, incident, secondsAgo } from '../support/daemon-state.ts';
import { ask, converse, serve } from '../support/status-server.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { failure, refusal, suspension } from '../support/sync-values.ts';

const LOOKING = ['/livez', '/readyz', '/healthz', '/status', '/metrics'];

describe('questions', () => {
  it('each question is answered with what it asks, for nobody to keep', async () => {
    const { url } = await serve({ status: async () => ({ datasets: ['parcels'] }) });
    const answers = await Promise.all(LOOKING.map((path) => ask(`${url}${path}`)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    for (const { headers } of answers) {
      expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
      expect(headers).not.toHaveProperty('access-control-allow-origin');
    }
    const [livez, readyz, healthz, status, metrics] = answers;
    expect(JSON.parse(livez?.text ?? '')).toEqual({ status: 'ok', reasons: [] });
    expect(JSON.parse(readyz?.text ?? '')).toEqual({ status: 'ok', reasons: [] });
    expect(JSON.parse(healthz?.text ?? '')).toMatchObject({
      status: 'ok',
      version: '1.2.3',
      phase: 'following',
    });
    expect(JSON.parse(status?.text ?? '')).toEqual({ datasets: ['parcels'] });
    expect(metrics?.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(metrics?.text).toContain('feed_sync_dataset_lag_seconds{dataset="parcels"} 0\n');
  });

  it('each question is answered by the present state, with 503 and why where something is wrong', async () => {
    const { url, observed } = await serve();
    observed.current = daemonState({ loopSilentMs: LOOP_STUCK_AFTER_MS + 1, caughtUpAt: null });
    const [livez, readyz, healthz] = await Promise.all(
      LOOKING.slice(0, 3).map((path) => ask(`${url}${path}`)),
    );
    expect([livez?.status, readyz?.status, healthz?.status]).toEqual([503, 503, 503]);
    expect(JSON.parse(livez?.text ?? '')).toEqual({
      status: 'failing',
      reasons: [
        { kind: 'stuck', of: 'loop', message: 'The loop has not gone round for 5 m 0 s.', since: null },
      ],
    });
    observed.current = daemonState();
    expect((await ask(`${url}/livez`)).status).toBe(200);
  });

  it('/healthz is answered with everything, but no value of the data', async () => {
    const { url, observed } = await serve();
    const message = 'The value "secret parcel" of owner is no integer.';
    observed.current = daemonState({
      datasets: new Map([
        ['parcels', datasetState('parcels')],
        ['roads', datasetState('roads', { behindSince: secondsAgo(60), failure: failure({ message }) })],
      ]),
      incidents: [incident('service', { isStall: true })],
      suspensions: [
        suspension(),
        { ...suspension(), refusal: refusal({ kind: 'subscription', subscriptionId: 's' }).refusal },
      ],
    });
    const { status, text } = await ask(`${url}/healthz`);
    expect(status).toBe(503);
    expect(text).not.toContain('secret parcel');
    expect(JSON.parse(text)).toEqual({
      status: 'failing',
      reasons: [
        { kind: 'stalled', of: 'service', message: 'It went wrong.', since: '2026-03-01T11:59:00.000Z' },
      ],
      version: '1.2.3',
      now: '2026-03-01T12:00:00.000Z',
      startedAt: '2026-03-01T11:00:00.000Z',
      phase: 'following',
      caughtUpAt: '2026-03-01T11:10:00.000Z',
      lastAuditAt: '2026-03-01T11:50:00.000Z',
      nextAuditAt: '2026-03-01T12:50:00.000Z',
      nextPollAt: '2026-03-01T12:00:30.000Z',
      subscriptions: [
        {
          id: 'sub_1',
          name: null,
          condition: 'idle',
          conditionSince: '2026-03-01T11:10:00.000Z',
          lastPollAt: '2026-03-01T11:59:50.000Z',
          lastGoodPollAt: '2026-03-01T11:59:50.000Z',
          cursor: 'evt_7',
          lastEventAt: '2026-03-01T10:00:00.000Z',
          head: 'evt_7',
          cursorAgeMs: 7_200_000,
          cursorExpiresAt: '2026-05-21T12:26:40.000Z',
        },
      ],
      datasets: { total: 2, behind: 1, working: 0, failed: 1 },
      datasetsBehind: [
        {
          id: 'roads',
          version: 3,
          targetVersion: 3,
          behindSince: '2026-03-01T11:59:00.000Z',
          work: null,
          failure: { error: 'data_invalid', attempts: 1 },
          retryAt: null,
        },
      ],
      incidents: [
        {
          of: 'service',
          error: 'service_unavailable',
          message: 'It went wrong.',
          hint: null,
          since: '2026-03-01T11:59:00.000Z',
          attempts: 2,
          isStall: true,
        },
      ],
      suspensions: [
        {
          scope: 'subscription',
          id: 's',
          operation: 'list versions',
          status: 403,
          code: 'outside_coverage',
          message: 'The county is not covered.',
          links: { coverage: 'https://app.example/coverage' },
          since: '2026-03-01T12:00:00.000Z',
        },
      ],
    });
  });

  it('each question may be asked with HEAD, and with a query, which means nothing', async () => {
    const { url } = await serve();
    const { status, headers, text } = await ask(`${url}/metrics?name=x`, { method: 'HEAD' });
    expect({ status, text }).toEqual({ status: 200, text: '' });
    expect(Number(headers['content-length'])).toBeGreaterThan(1_000);
  });
});

describe('refused requests', () => {
  it.each(['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])(
    'refuses %s on addresses that only report',
    async (method) => {
      const { url } = await serve();
      for (const path of LOOKING) {
        const { status, headers } = await ask(`${url}${path}`, { method });
        expect({ status, allow: headers['allow'] }).toEqual({ status: 405, allow: 'GET, HEAD' });
      }
      const delivered = await ask(`${url}/webhook`, { method: method === 'POST' ? 'GET' : method });
      expect([delivered.status, delivered.headers['allow']]).toEqual([405, 'POST']);
    },
  );

  it.each([
    '/page',
    '/page/',
    '/canary',
    '/livez/',
    '/LIVEZ',
    '//livez',
    '/livez/../canary',
    '/%6civez',
    '*',
  ])('answers the address %s with 404, and does not repeat it', async (path) => {
    const { url } = await serve();
    const answer = await converse(
      url,
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 404 /);
    expect(answer).toMatch(/\r\n\r\nNot found\.\n$/);
  });

  it('refuses webhooks where none are received', async () => {
    const { url } = await serve();
    expect((await ask(`${url}/webhook`, { method: 'POST', body: '{}' })).status).toBe(404);
  });

  it.each([
    ['localhost', 200],
    ['LOCALHOST:9464', 200],
    ['127.0.0.1:9464', 200],
    ['127.8.8.8', 200],
    ['[::1]:9464', 200],
    ['feed.example.com', 421],
    ['localhost.example.com:9464', 421],
    ['127.0.0.1.example.com', 421],
    ['example.com:127.0.0.1', 421],
    ['192.168.0.1', 421],
  ])('answers the host %j on a loopback address with %i', async (host, expected) => {
    const { url } = await serve();
    expect((await ask(`${url}/metrics`, { headers: { host } })).status).toBe(expected);
  });

  it('refuses a request without a host on a loopback address', async () => {
    const { url } = await serve();
    expect(await converse(url, 'GET /metrics HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 421 /);
    expect(await converse(url, 'GET /metrics HTTP/1.0\r\nHost:\r\n\r\n')).toMatch(/^HTTP\/1\.1 421 /);
  });

  it('accepts any host on another address: supervisors call this machine what they like', async () => {
    const { server } = await serve({ listen: { host: '0.0.0.0', port: 0 } });
    const { port } = new URL(server.url);
    const { status } = await ask(`http://127.0.0.1:${port}/livez`, { headers: { host: 'pod-7.internal' } });
    expect(status).toBe(200);
  });

  it('refuses headers beyond their limit, and what is no HTTP', async () => {
    const { url } = await serve();
    const large = `GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Large: ${'x'.repeat(MAX_HEADER_BYTES)}\r\n\r\n`;
    expect(await converse(url, large)).toMatch(/^HTTP\/1\.1 431 /);
    expect(await converse(url, 'HELLO\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /);
    expect((await ask(`${url}/livez`)).status).toBe(200);
  });
});

describe('incidents of the status server', () => {
  it('an error is answered without its words, and logged once until it is over', async () => {
    const storageError = new StorageError('The checkpoint /data/checkpoint.sqlite cannot be read.');
    let isOver = false;
    const clock = new SteppedClock();
    const { url, logged, observed } = await serve({
      clock,
      status: async () => {
        if (!isOver) throw storageError;
        return {};
      },
    });
    const fail = () => ask(`${url}/status`);
    expect(await fail()).toMatchObject({
      status: 500,
      text: 'This could not be answered. The log says why.\n',
    });
    expect((await fail()).status).toBe(500);
    observed.current = storageError;
    expect((await ask(`${url}/metrics`)).status).toBe(500);
    expect(logged).toHaveLength(2);
    expect(logged[0]).toContain('"question":"status","error":"storage_failed","why":"The checkpoint /data');
    isOver = true;
    expect((await fail()).status).toBe(200);
    isOver = false;
    clock.pass(SHARED_FOR_MS);
    expect((await fail()).status).toBe(500);
    expect(logged).toHaveLength(3);
  });

  it('F66 names an address that is taken, or not of this machine, and what to do', async () => {
    const { url, observed } = await serve();
    const { port } = new URL(url);
    const taken = serve({ listen: { host: '127.0.0.1', port: Number(port) }, observed });
    await expect(taken).rejects.toThrow(ConfigurationError);
    await expect(taken).rejects.toThrow(
      `The status server cannot listen on 127.0.0.1 port ${port}: address already in use (EADDRINUSE). Something else listens there, or a file is in the way.`,
    );
    await expect(taken).rejects.toMatchObject({ hint: 'Give another address in status.listen, or off.' });
    await expect(serve({ listen: { host: '192.0.2.1', port: 0 } })).rejects.toThrow(/EADDRNOTAVAIL/);
    expect(observed.observers).toBe(1);
  });

  it('a client that goes away while it is answered disturbs nobody else', async () => {
    const answering = Promise.withResolvers<unknown>();
    const asked = Promise.withResolvers<void>();
    const { url, logged } = await serve({
      status: () => {
        asked.resolve();
        return answering.promise;
      },
    });
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname, () =>
      socket.write('GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n'),
    );
    await asked.promise;
    socket.destroy();
    answering.resolve({ much: 'x'.repeat(1_000_000) });
    expect((await ask(`${url}/livez`)).status).toBe(200);
    expect(logged).toEqual([]);
  });
});

describe('the end of the status server', () => {
  it('the end of the status server waits for requests under way, and accepts nothing more', async () => {
    const answering = Promise.withResolvers<unknown>();
    const asked = Promise.withResolvers<void>();
    const { server, url, observed } = await serve({
      // However long it takes here, it is not too long.
      clock: new SteppedClock(),
      status: () => {
        asked.resolve();
        return answering.promise;
      },
    });
    const answer = ask(`${url}/status`);
    await asked.promise;
    const closing = server.close();
    await expect(ask(`${url}/livez`)).rejects.toThrow('ECONNREFUSED');
    answering.resolve({});
    expect(await answer).toMatchObject({ status: 200, headers: { connection: 'close' } });
    await closing;
    expect(observed.observers).toBe(0);
  });

  it('the end of the status server does not wait for ever', async () => {
    let sleptMs = 0;
    const late = Promise.withResolvers<void>();
    const clock = {
      now: () => new Date(),
      monotonicMs: () => 0,
      sleep: (durationMs: number) => {
        sleptMs = durationMs;
        return late.promise;
      },
    };
    const asked = Promise.withResolvers<void>();
    const never = new Promise<unknown>(() => {});
    const { server, url } = await serve({
      clock,
      status: () => {
        asked.resolve();
        return never;
      },
    });
    const answer = ask(`${url}/status`);
    answer.catch(() => {});
    await asked.promise;
    const closing = server.close();
    expect(sleptMs).toBe(CLOSE_TIMEOUT_MS);
    late.resolve();
    await closing;
    await expect(answer).rejects.toThrow('socket hang up');
  });
});
