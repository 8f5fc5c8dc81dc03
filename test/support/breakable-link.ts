/**
 * A way to the feed that can be taken away: while it is, connections are broken, new ones as soon as they are made. Its
 * port stays its own all the time: one that is given back may be in use elsewhere by the time it is needed again.
 */

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface BreakableLink {
  /** What the program is given in place of the feed's own address. */
  readonly baseUrl: string;
  /** Bytes that went through it, both ways. */
  readonly bytes: number;
  /** From now on there is no way through. */
  refuse(): void;
  /** From now on there is one again. */
  accept(): void;
  /** From now on it leads there. */
  leadTo(url: string): void;
}

/** Gone when the test has finished. */
export async function breakableLink(feedUrl: string): Promise<BreakableLink> {
  let target = Number(new URL(feedUrl).port);
  let isRefused = false;
  const sockets = new Set<Socket>();
  let bytes = 0;
  const forward = (client: Socket): void => {
    if (isRefused) {
      client.resetAndDestroy();
      return;
    }
    const service = connect(target, '127.0.0.1');
    for (const [from, to] of [
      [client, service],
      [service, client],
    ] as const) {
      sockets.add(from);
      from.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      from.on('error', () => to.destroy());
      from.on('close', () => sockets.delete(from));
      from.pipe(to);
    }
  };
  const server = createServer(forward);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const breakAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(async () => {
    const closed = once(server, 'close');
    server.close();
    breakAll();
    await closed;
  });
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get bytes() {
      return bytes;
    },
    refuse() {
      isRefused = true;
      breakAll();
    },
    accept() {
      isRefused = false;
    },
    leadTo(url) {
      target = Number(new URL(url).port);
    },
  };
}
