/**
 * `https://feed.test`, a name that no resolver knows, behind a private authority and a proxy: what a company network
 * looks like to the program. TLS ends here and goes on to the fixture feed in the clear.
 */

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { onTestFinished } from 'vitest';

const TLS_DIRECTORY = join(import.meta.dirname, 'tls');

export const AUTHORITY_PATH = join(TLS_DIRECTORY, 'authority.pem');
export const FRONT_ORIGIN = 'https://feed.test';

export interface TlsFront {
  readonly proxyUrl: string;
  /** The targets that the proxy was asked to connect to. */
  readonly tunnels: readonly string[];
}

/** A proxy that connects to `feed.test` only, and there to the feed. Closed when the test has finished. */
export async function tlsFront(feedUrl: string): Promise<TlsFront> {
  const sockets = new Set<Socket>();
  const tls = createTlsServer({
    key: readFileSync(join(TLS_DIRECTORY, 'server-key.pem')),
    cert: readFileSync(join(TLS_DIRECTORY, 'server.pem')),
  });
  tls.on('secureConnection', (client) => splice(client, connect(Number(new URL(feedUrl).port), '127.0.0.1')));
  const tlsPort = await listening(tls, sockets);

  const tunnels: string[] = [];
  const proxy = createHttpServer((_request, response) => response.writeHead(405).end());
  proxy.on('connect', (request, client: Socket) => {
    tunnels.push(request.url ?? '');
    if (request.url !== 'feed.test:443') {
      client.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      return;
    }
    const upstream = connect(tlsPort, '127.0.0.1', () => client.write('HTTP/1.1 200 Connected\r\n\r\n'));
    splice(client, upstream);
  });
  const proxyPort = await listening(proxy, sockets);

  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    tls.close();
    proxy.close();
  });
  return { proxyUrl: `http://127.0.0.1:${proxyPort}`, tunnels };
}

async function listening(server: Server, sockets: Set<Socket>): Promise<number> {
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

function splice(left: Socket, right: Socket): void {
  left.pipe(right).pipe(left);
  left.on('error', () => right.destroy());
  right.on('error', () => left.destroy());
}
