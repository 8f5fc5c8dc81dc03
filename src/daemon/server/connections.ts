/**
 * The connections of the status server: each is answered one request at a time, and there is always a place for one more.
 *
 * A new connection beyond the limit takes the place of the one that has been without an answer for longest: a probe asks at once and is
 * answered at once, so connections that only hold their place never keep it out.
 */

import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Clock, nextTurn } from '../../lib/clock.ts';
import { MAX_CONNECTIONS, MAX_WAITING_REQUESTS, SEND_TIMEOUT_MS, SENT_AT_ONCE_BYTES } from './limits.ts';

interface Connection {
  /** Requests that have arrived and are not answered. */
  waiting: number;
  /** Resolves when the last of them is answered. Never rejects. */
  answered: Promise<void>;
  /** Ends the waiting for the response that is being sent. */
  onClose: () => void;
}

export class Connections {
  /** The one that has been without an answer for longest is the first. */
  readonly #connections = new Map<Socket, Connection>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  accept(socket: Socket): void {
    const [oldest] = this.#connections.keys();
    if (oldest !== undefined && this.#connections.size >= MAX_CONNECTIONS) this.#drop(oldest);
    const connection: Connection = { waiting: 0, answered: Promise.resolve(), onClose: () => {} };
    this.#connections.set(socket, connection);
    socket.once('close', () => {
      this.#connections.delete(socket);
      connection.onClose();
    });
  }

  /** Calls `serve`, which must not reject, once the earlier requests of the connection are answered. */
  inTurn(socket: Socket, serve: () => Promise<void>): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) return;
    connection.waiting += 1;
    if (connection.waiting > MAX_WAITING_REQUESTS) {
      this.#drop(socket);
      return;
    }
    connection.answered = connection.answered.then(async () => {
      // After a response that is the last one, the socket is ended before it is destroyed.
      if (!socket.destroyed && socket.writable) await serve();
      connection.waiting -= 1;
      if (this.#connections.delete(socket)) this.#connections.set(socket, connection);
    });
  }

  /** Sends the rest of `response`. Resolves when it was handed over, or its connection is closed because the client takes too long. */
  async send(socket: Socket, response: ServerResponse, body: Buffer): Promise<void> {
    const connection = this.#connections.get(socket);
    if (connection === undefined) return;
    const done = new AbortController();
    const late = this.#clock.sleep(SEND_TIMEOUT_MS, done.signal).then(
      () => this.#drop(socket),
      () => {},
    );
    await new Promise<void>((resolve) => {
      connection.onClose = resolve;
      response.once('close', resolve);
      if (body.length <= SENT_AT_ONCE_BYTES) response.end(body);
      // A client that leaves closes the response.
      else pipeline(Readable.from(partsOf(body)), response).catch(() => {});
    });
    done.abort();
    await late;
  }

  #drop(socket: Socket): void {
    this.#connections.delete(socket);
    socket.destroy();
  }
}

/** Between the parts the loop serves other connections. */
async function* partsOf(body: Buffer): AsyncGenerator<Buffer> {
  for (let from = 0; from < body.length; from += SENT_AT_ONCE_BYTES) {
    if (from > 0) await nextTurn();
    yield body.subarray(from, from + SENT_AT_ONCE_BYTES);
  }
}
