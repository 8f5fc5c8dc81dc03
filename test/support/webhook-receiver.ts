/** A receiver of webhooks on loopback, for one test: keeps the requests it receives, and answers as a test says. */

import { createServer, type IncomingHttpHeaders } from 'node:http';
import { listenOnLoopback } from './own-server.ts';

export interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Receiver {
  readonly url: string;
  readonly received: readonly Received[];
  /** Of the answers that follow. */
  status: number;
}

export async function webhookReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  const receiver = { url: '', received, status: 204 };
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      received.push({ headers: request.headers, body });
      response.writeHead(receiver.status).end();
    });
  });
  receiver.url = `http://127.0.0.1:${await listenOnLoopback(server)}/webhook`;
  return receiver;
}
