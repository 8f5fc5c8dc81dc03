/** A status server on a free port of this machine, which ends with the test; and what is asked of it. */

import { request } from 'node:http';
import { connect } from 'node:net';
import { onTestFinished } from 'vitest';
import type { PageStores } from '../../src/daemon/server/page/overview.ts';
import {
  type StatusServer,
  type StatusServerParts,
  startStatusServer,
} from '../../src/daemon/server/server.ts';
import type { WebhookParts } from '../../src/daemon/server/webhook.ts';
import { systemClock } from '../../src/lib/clock.ts';
import type { Log, LogFields } from '../../src/lib/log.ts';
import { silentLog } from '../../src/lib/log.ts';
import { reportOf } from '../../src/reporting/report.ts';
import { SteeredObserved } from './daemon-state.ts';
import { NOW } from './sync-values.ts';

export interface ServerUnderTest {
  readonly server: StatusServer;
  readonly url: string;
  readonly observed: SteeredObserved;
  /** What it logged, a line each. */
  readonly logged: readonly string[];
}

/** Time stands still at `NOW`, unless `changed` says otherwise. */
export async function serve(changed: Partial<StatusServerParts> = {}): Promise<ServerUnderTest> {
  const observed = new SteeredObserved();
  const logged: string[] = [];
  const server = await startStatusServer({
    listen: { host: '127.0.0.1', port: 0 },
    version: '1.2.3',
    observed,
    status: async () => ({ datasets: [] }),
    pageStores: () => emptyPageStores(),
    placeOptions: [],
    places: {
      mirrorPath: '/nowhere/mirror.duckdb',
      checkpointPath: '/nowhere/checkpoint.sqlite',
      dataDirectory: '/',
      diskReserveBytes: 1_000,
    },
    webhook: null,
    token: null,
    clock: { ...systemClock, now: () => NOW },
    log: loggingTo(logged),
    ...changed,
  });
  onTestFinished(() => server.close());
  return { server, url: server.url, observed, logged };
}

function emptyPageStores(): PageStores {
  const report = reportOf({
    mirror: null,
    checkpoint: null,
    choices: { include: ['*'], exclude: [] },
    keyHash: null,
  });
  return { report, syncRuns: [] };
}

function loggingTo(lines: string[]): Log {
  const error = (fields: LogFields, message: string) =>
    void lines.push(`${message} ${JSON.stringify(fields)}`);
  return { ...silentLog, error };
}

export interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly text: string;
}

export interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string;
}

/** By Node's own client, which lets a test name the host and everything else that is sent. */
export function ask(url: string, { method = 'GET', headers = {}, body = '' }: Asked = {}): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: Buffer.concat(chunks).toString(),
        }),
      );
    });
    asking.on('error', reject);
    asking.end(body);
  });
}

/** Sends bytes as they are, and gives all that comes back until the other side closes. */
export function converse(url: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => resolve(Buffer.concat(chunks).toString()));
  });
}

export interface Receiver {
  readonly parts: WebhookParts;
  /** How often the loop was woken. */
  readonly woken: () => number;
  /** Sets the text of the file of secrets; an error is thrown where it is read. */
  readonly setFile: (text: string | Error) => void;
}

/** A receiver of webhooks whose memory is a set. */
export function receiver(text: string | Error, remember?: WebhookParts['remember']): Receiver {
  let file = text;
  let woken = 0;
  const known = new Set<string>();
  const parts: WebhookParts = {
    secretFile: '/etc/feed-sync/webhook-secrets',
    readFile: () => {
      if (file instanceof Error) throw file;
      return file;
    },
    remember: remember ?? ((id) => known.size < known.add(id).size),
    wake: () => {
      woken += 1;
    },
  };
  const setFile = (next: string | Error): void => {
    file = next;
  };
  return { parts, woken: () => woken, setFile };
}
