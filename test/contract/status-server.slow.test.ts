/** A client that is slow, on purpose or not, is cut off in time, and delays nobody else. */

import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  HEADERS_TIMEOUT_MS,
  IDLE_TIMEOUT_MS,
  REQUEST_TIMEOUT_MS,
  TIMEOUT_CHECK_MS,
} from '../../src/daemon/server/limits.ts';
import { ask, receiver, serve } from '../support/status-server.ts';

/** What closing a connection may take. */
const CLOSING_MS = 5_000;
const TICK_MS = 50;
const DRIP_EVERY_MS = 500;
/** More than the system keeps for a reader that does not read. */
const MUCH = 50_000_000;

/**
 * Time as this process has it, in which the server lives, too: it stands still while the machine lets others run, so that what
 * is measured by it is the server's doing.
 */
let hadMs = 0;
let ticking: NodeJS.Timeout;

beforeAll(() => {
  ticking = setInterval(() => {
    hadMs += TICK_MS;
  }, TICK_MS);
});

afterAll(() => clearInterval(ticking));

/** Opens a connection, lets `speak` loose on it, and returns what came back and how long it lasted. */
async function lasting(url: string, speak: (socket: Socket) => () => void) {
  const { hostname, port } = new URL(url);
  const startedMs = hadMs;
  const socket = connect(Number(port), hostname);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.on('error', () => {});
  const stop = speak(socket);
  await new Promise((resolve) => socket.once('close', resolve));
  stop();
  return { answer: Buffer.concat(chunks).toString(), lastedMs: hadMs - startedMs };
}

/** Sends `begin`, and then a letter now and then. */
function dripping(begin: string) {
  return (socket: Socket) => {
    socket.write(begin);
    const timer = setInterval(() => void socket.write('x'), DRIP_EVERY_MS);
    return () => clearInterval(timer);
  };
}

function within(limitMs: number): number {
  return limitMs + TIMEOUT_CHECK_MS + CLOSING_MS;
}

it('F60: cuts off connections that send headers or a body slowly, and those that do not read', async () => {
  const webhook = receiver('whsec_QUJD');
  const { url, logged } = await serve({
    webhook: webhook.parts,
    status: async () => ({ much: 'x'.repeat(MUCH) }),
  });
  const headers = lasting(url, dripping('GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Drip: '));
  const body = lasting(url, dripping('POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n'));
  const silence = lasting(url, () => () => {});
  const unread = lasting(url, (socket) => {
    socket.pause();
    socket.write('GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n');
    const timer = setTimeout(() => void socket.resume(), within(2 * IDLE_TIMEOUT_MS));
    return () => clearTimeout(timer);
  });
  expect((await ask(`${url}/livez`)).status).toBe(200);
  expect((await headers).answer).toMatch(/^HTTP\/1\.1 408 /);
  expect((await headers).lastedMs).toBeLessThan(within(HEADERS_TIMEOUT_MS));
  expect((await silence).lastedMs).toBeLessThan(within(HEADERS_TIMEOUT_MS));
  expect((await body).answer).toMatch(/^HTTP\/1\.1 408 /);
  expect((await body).lastedMs).toBeLessThan(within(REQUEST_TIMEOUT_MS));
  expect((await unread).answer.length).toBeLessThan(MUCH);
  expect((await ask(`${url}/livez`)).status).toBe(200);
  expect(logged).toEqual([]);
  expect(webhook.woken()).toBe(0);
});
