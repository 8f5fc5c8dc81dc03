/** A web server of a test's own, at an address of its own on loopback, that answers as a test says. Closed when the test has finished. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export interface OwnServer {
  readonly url: string;
  /** Every request, as it came. */
  readonly seen: readonly { readonly path: string; readonly headers: IncomingMessage['headers'] }[];
}

export async function ownServer(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<OwnServer> {
  const seen: OwnServer['seen'][number][] = [];
  const server = createServer((request, response) => {
    seen.push({ path: request.url ?? '', headers: request.headers });
    response.on('error', () => {});
    answer(request, response);
  });
  return { url: `http://127.0.0.1:${await listenOnLoopback(server)}`, seen };
}

/** Lets the server listen on loopback until the test has finished. Returns its port. */
export async function listenOnLoopback(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  return (server.address() as AddressInfo).port;
}
