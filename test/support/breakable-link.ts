/** A way to the feed that can be taken away: while it is, connections are refused and those that stood are broken. */

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface BreakableLink {
  /** What the program is given in place of the feed's own address. */
  readonly baseUrl: string;
  /** Bytes that went through it, both ways. */
  readonly bytes: number;
  /** Resolves once connections are refused. */
  refuse(): Promise<void>;
  /** Resolves once they are accepted again, at the same address. */
  accept(): Promise<void>;
}

/** Gone when the test has finished. */
export async function breakableLink(feedUrl: string): Promise<BreakableLink> {
  const target = Number(new URL(feedUrl).port);
  const sockets = new Set<Socket>();
  let bytes = 0;
  const forward = (client: Socket): void => {
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
  let server = createServer(forward);
  const refuse = async (): Promise<void> => {
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  const port = await listening(server, 0);
  onTestFinished(async () => {
    if (server.listening) await refuse();
  });
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    get bytes() {
      return bytes;
    },
    refuse,
    async accept() {
      server = createServer(forward);
      await listening(server, port);
    },
  };
}

async function listening(server: Server, port: number): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
