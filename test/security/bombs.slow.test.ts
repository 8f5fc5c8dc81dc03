/**
 * F18 answers that are small on the wire and large in memory, and headers without end, against the real program: each is
 * refused at a limit, and the peak memory of the program stays near that of an answer of one line.
 */

import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { CANARY_KEY } from '../support/feed-client.ts';
import { ownServer } from '../support/own-server.ts';
import { type Program, program } from '../support/program.ts';

/** Above an answer of one line: the largest body there may be, as bytes, as text, and what a parser makes of it. */
const ALLOWED_BYTES = 700_000_000;

const repeated = (text: string, bytes: number, ends: readonly [string, string]): string =>
  `${ends[0]}${text.repeat(Math.floor(bytes / text.length))}${ends[1]}`;
const WITHIN = 60_000_000;

/** The bodies, by kind; each fits into few bytes once it is deflated. */
const BODIES: Readonly<Record<string, () => string>> = {
  'empty objects': () => repeated('{},', WITHIN, ['{"subscriptions":[', '{}]}']),
  numbers: () => repeated('1,', WITHIN, ['{"subscriptions":[', '1]}']),
  'members of one name': () => repeated('"a":1,', WITHIN, ['{', '"a":1}']),
  'an integer of many digits': () => repeated('9', WITHIN, ['{"subscriptions":', '}']),
  'a number without end': () => '{"subscriptions":[],"nextCursor":null,"further":1e999999}',
  'a long text': () => repeated('x', WITHIN, ['{"subscriptions":[{"id":"', '"}],"nextCursor":null}']),
};

const ENCODINGS: Readonly<Record<string, (text: string) => Buffer>> = {
  gzip: (text) => gzipSync(text, { level: 1 }),
  deflate: (text) => deflateSync(text, { level: 1 }),
  br: (text) => brotliCompressSync(text, { params: { 1: 1 } }),
};

async function listening(answer: (response: ServerResponse) => void) {
  const server = await ownServer((_request, response) => answer(response));
  const installed = await program({
    feed: { baseUrl: server.url, apiKey: CANARY_KEY },
    environment: { FEED_SYNC_RETRY_MAX_ATTEMPTS: '1', FEED_SYNC_HTTP_TIMEOUT: '20s' },
  });
  return installed;
}

/** The end of the process, and its peak memory. */
async function measured(installed: Program) {
  const path = join(installed.home, 'most-memory');
  const script = `import { writeFileSync } from 'node:fs'; process.on('exit', () => writeFileSync(${JSON.stringify(path)}, String(process.resourceUsage().maxRSS)));`;
  const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(script)}`;
  const ended = await installed.runWith({ NODE_OPTIONS }, 'subscriptions');
  return { ...ended, bytes: Number(readFileSync(path, 'utf8')) * 1_024 };
}

it('F18 refuses JSON that grows in memory at a limit, in every encoding', async () => {
  let body: Buffer = Buffer.from('');
  let encoding = 'gzip';
  const installed = await listening((response) => {
    response.writeHead(200, { 'content-encoding': encoding }).end(body);
  });
  body = gzipSync('{"subscriptions":[],"nextCursor":null}');
  const idle = await measured(installed);
  expect(idle.exitCode, idle.stderr).toBe(0);
  const names = Object.keys(ENCODINGS);
  for (const [index, [name, text]] of Object.entries(BODIES).entries()) {
    encoding = names[index % names.length] ?? '';
    body = ENCODINGS[encoding]?.(text()) ?? body;
    const { exitCode, signal, stderr, bytes } = await measured(installed);
    expect({ signal, isBug: stderr.includes('A bug in') }, name).toEqual({ signal: null, isBug: false });
    expect([0, 65, 75], `${name}: ${stderr}`).toContain(exitCode);
    expect(bytes - idle.bytes, name).toBeLessThan(ALLOWED_BYTES);
    // Nothing of the body is printed.
    expect(stderr.length, name).toBeLessThan(2_000);
  }
});

it('F18 refuses headers without end at a limit of memory', async () => {
  const installed = await listening(({ socket }) => {
    socket?.on('error', () => {});
    socket?.write('HTTP/1.1 200 OK\r\n');
    const more = (): void => {
      while (socket?.destroyed === false) {
        if (!socket.write(`x-more: ${'x'.repeat(8_000)}\r\n`)) return void socket.once('drain', more);
      }
    };
    more();
  });
  const { exitCode, stderr, bytes } = await measured(installed);
  expect(exitCode, stderr).toBe(75);
  expect(bytes).toBeLessThan(ALLOWED_BYTES);
});
