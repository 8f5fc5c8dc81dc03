/** A socket before a PostgreSQL server that loses the answer to the next COMMIT with its connection, or passes nothing on for a while. */

import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** Returns the address by the socket, and how often an answer was lost. Is closed when the test has finished. */
export async function cuttingProxy(
  address: string,
  port = 5432,
): Promise<{
  readonly address: string;
  cutNext(): void;
  readonly cuts: () => number;
  /** Calls `fault` with the statement that is sent then, counted from 1, and cuts the connection: before the server has it, or after. */
  cutAt(statement: number, side: 'before' | 'after', fault?: () => Promise<void>): void;
  /** Calls `act` before the server gets the next statement that has the text, and passes it on then. */
  before(text: string, act: () => Promise<void>): void;
  /** Cuts the connections that are open. */
  cutNow(): void;
  /** Cuts the connections that are open on this side alone: the server does not notice it, and waits for more. */
  leave(): void;
  /** Nothing more is cut. */
  disarm(): void;
  /** From now on no byte is passed on in either direction, and neither side notices. */
  lose(): void;
  /** Everything that came meanwhile is passed on. */
  restore(): void;
}> {
  const folder = await mkdtemp(join(tmpdir(), 'feed-sync-proxy-'));
  const behind = new URL(address.replace('@/', '@socket/')).searchParams.get('host') ?? '';
  let isArmed = false;
  let isLost = false;
  let remaining = 0;
  let cutting: { readonly side: 'before' | 'after'; readonly fault: () => Promise<void> } | null = null;
  let awaited: { readonly text: string; readonly act: () => Promise<void> } | null = null;
  const sockets = new Set<Socket>();
  const clients = new Set<Socket>();
  let isLeaving = false;
  let cuts = 0;
  const passOn = async (bytes: Buffer, upstream: Socket): Promise<void> => {
    if (awaited?.text !== undefined && bytes.includes(awaited.text)) {
      const { act } = awaited;
      awaited = null;
      await act();
    }
    upstream.write(bytes);
  };
  const server = createServer((client) => {
    const upstream = connect(join(behind, `.s.PGSQL.${port}`));
    let isCut = false;
    let isOver = false;
    clients.add(client);
    client.on('close', () => clients.delete(client));
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
      if (isLost) socket.pause();
    }
    client.on('data', (bytes) => {
      if (isArmed && bytes.includes('COMMIT\0')) {
        isArmed = false;
        isCut = true;
      }
      remaining -= 1;
      if (cutting !== null && remaining === 0) {
        const { side, fault } = cutting;
        cutting = null;
        isOver = true;
        cuts += 1;
        if (side === 'after') upstream.write(bytes);
        void fault().finally(() => {
          client.destroy();
          upstream.destroy();
        });
        return;
      }
      void passOn(bytes, upstream);
    });
    upstream.on('data', (bytes) => {
      if (isOver) return;
      if (!isCut) {
        client.write(bytes);
        return;
      }
      // The server has answered, so the transaction is committed.
      cuts += 1;
      client.destroy();
      upstream.destroy();
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      const follow = (): void => {
        if (!isLeaving || one !== client) other.destroy();
      };
      one.on('close', follow);
      one.on('error', follow);
    }
  });
  await new Promise<void>((resolve) => server.listen(join(folder, '.s.PGSQL.5432'), resolve));
  onTestFinished(async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
    await rm(folder, { recursive: true, force: true });
  });
  return {
    address: address.replace(encodeURIComponent(behind), encodeURIComponent(folder)),
    cutNext: () => {
      isArmed = true;
    },
    disarm() {
      isArmed = false;
      cutting = null;
    },
    cuts: () => cuts,
    before(text, act) {
      awaited = { text, act };
    },
    cutNow() {
      for (const socket of sockets) socket.destroy();
    },
    leave() {
      isLeaving = true;
      for (const client of clients) client.destroy();
    },
    cutAt(statement, side, fault = async () => {}) {
      remaining = statement;
      cutting = { side, fault };
    },
    lose() {
      isLost = true;
      for (const socket of sockets) socket.pause();
    },
    restore() {
      isLost = false;
      for (const socket of sockets) socket.resume();
    },
  };
}
