/**
 * What reads the bytes of others: each target takes any bytes and either reads them or refuses them by an error of the program.
 */

import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EXIT_CODES, exitCodeOf } from '../../src/cli/exit-codes.ts';
import { inspectConfiguration } from '../../src/configuration/configuration.ts';
import { judge } from '../../src/daemon/server/webhook.ts';
import { TransientError } from '../../src/feed/http/failures.ts';
import { type HttpAnswer, retryAfterMs } from '../../src/feed/http/http.ts';
import { readJsonBody } from '../../src/feed/http/json-body.ts';
import { listChanges } from '../../src/feed/operations.ts';
import { decodeErrorBody } from '../../src/feed/wire/records.ts';
import { Secret } from '../../src/lib/secret.ts';
import { COLUMN_TYPES } from '../../src/model/records.ts';
import { coalesceChanges } from '../../src/staging/changes/net-change.ts';
import { Engine } from '../../src/staging/engine/engine.ts';
import { examine, parseGeoMetadata } from '../../src/staging/snapshot/parquet.ts';
import { WIRE_DOCUMENTS } from '../properties/wire-documents.ts';
import { changesJob } from '../support/change-pages.ts';
import { projectRoot } from '../support/source-tree.ts';
import { column } from '../support/sync-values.ts';

export interface Target {
  readonly name: string;
  /** Its share of the cases. */
  readonly weight: number;
  /** @throws what is to be judged by `isClassified`. */
  read(bytes: Buffer, random: () => number): void | Promise<void>;
}

/** The errors that a reader may answer bad bytes with: any other ends the program with 70. */
export function isClassified(error: unknown): boolean {
  return error instanceof TransientError || exitCodeOf(error) !== EXIT_CODES.bug;
}

export interface Example {
  readonly target: string;
  readonly bytes: Buffer;
}

const CORPUS = join(projectRoot, 'test/fuzz/corpus');

/** The examples of the repository, in the order of their names. */
export function corpus(): readonly Example[] {
  const paths = globSync('*/*', { cwd: CORPUS }).toSorted();
  return paths.map((path) => ({
    target: path.split('/')[0] ?? '',
    bytes: readFileSync(join(CORPUS, path)),
  }));
}

const JSON_LIMITS = { maxBytes: 1_000_000, maxDepth: 64 };
/** A column of each type, after the key. */
const CHANGED_COLUMNS = ['id', ...COLUMN_TYPES].map((name, index) =>
  column(name, index === 0 ? {} : { type: COLUMN_TYPES[index - 1] ?? 'string' }),
);
const ENCODINGS = [null, null, null, null, 'gzip', 'br', 'deflate', 'x'];
const WEBHOOK_SECRETS = [new Secret('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')];
const NOW = new Date('2026-11-26T12:00:00Z');

/** An instance as it examines files, in a folder. */
export function openFuzzEngine(folder: string): Promise<Engine> {
  return Engine.open({
    memoryLimitBytes: 256e6,
    threads: 1,
    temporaryDirectory: join(folder, 'spilled'),
    directories: [folder],
  });
}

/** `folder` is a folder that the engine may read. */
export function targets(engine: Engine, folder: string): readonly Target[] {
  return [
    { name: 'json', weight: 8, read: readJson },
    { name: 'yaml', weight: 3, read: readYaml },
    { name: 'retry-after', weight: 1, read: (bytes) => readRetryAfter(bytes.toString('latin1')) },
    { name: 'webhook', weight: 1, read: readWebhook },
    { name: 'geo', weight: 2, read: (bytes) => void parseGeoMetadata(bytes.toString('utf8')) },
    { name: 'changes', weight: 1, read: (bytes, random) => readChanges(bytes, random, engine, folder) },
    {
      name: 'parquet',
      weight: 1,
      async read(bytes) {
        const path = join(folder, 'fuzzed.parquet');
        writeFileSync(path, bytes);
        await examine(
          engine,
          { path, name: 'fuzzed.parquet', bytes: bytes.length, rowCount: null },
          'parcels',
        );
      },
    },
  ];
}

async function readJson(bytes: Buffer, random: () => number): Promise<void> {
  const encoding = ENCODINGS[Math.floor(random() * ENCODINGS.length)] ?? null;
  const { json } = await readJsonBody(answerOf(bytes, encoding, random), JSON_LIMITS, 'read it');
  decodeErrorBody(json, (text) => text);
  const refusals: unknown[] = [];
  for (const { decode } of WIRE_DOCUMENTS) {
    try {
      decode(json);
    } catch (error) {
      if (!isClassified(error)) throw error;
      refusals.push(error);
    }
  }
}

/** The rows of a page, as they are staged: the body is proven to be JSON, and DuckDB reads its rows from a file. */
async function readChanges(
  bytes: Buffer,
  random: () => number,
  engine: Engine,
  folder: string,
): Promise<void> {
  const { maxDepth = JSON_LIMITS.maxDepth, unreadList = null, decode } = listChanges('parcels', 2);
  const body = await readJsonBody(
    answerOf(bytes, null, random),
    { ...JSON_LIMITS, maxDepth },
    'read it',
    unreadList,
  );
  decode(body.json);
  const path = join(folder, 'changes-00000.json');
  writeFileSync(path, body.bytes);
  const page = { version: 2, counts: null, rowCount: null, pages: [path] };
  await coalesceChanges(engine, changesJob({ columns: CHANGED_COLUMNS }, [page]));
}

/** The body comes in pieces of any size. */
function answerOf(bytes: Buffer, encoding: string | null, random: () => number): HttpAnswer {
  return {
    status: 200,
    readAt: NOW,
    retryAfterMs: null,
    header: (name) => (name === 'content-encoding' ? encoding : null),
    async *chunks() {
      for (let at = 0; at < bytes.length; ) {
        const length = 1 + Math.floor(random() ** 3 * bytes.length);
        yield bytes.subarray(at, at + length);
        at += length;
      }
    },
    discard() {},
  };
}

function readYaml(bytes: Buffer): void {
  inspectConfiguration({
    flags: {},
    environment: {},
    workingDirectory: '/home/ann',
    machine: { memoryBytes: 16e9, constrainedMemoryBytes: 0, heapBytes: 2e9, cores: 4 },
    stderrIsTerminal: false,
    readFile: (path) => {
      if (path === '/home/ann/feed-sync.yaml') return bytes.toString('utf8');
      throw Object.assign(new Error('ENOENT'), { code: 'ENOENT' });
    },
  });
}

function readRetryAfter(text: string): void {
  const ms = retryAfterMs(text, NOW);
  if (ms !== null && !(Number.isFinite(ms) && ms >= 0)) throw new RangeError(`a wait of ${ms}`);
}

/** The lines before the body are headers. */
function readWebhook(bytes: Buffer): void {
  const [head = '', body = ''] = bytes.toString('latin1').split('\n\n', 2);
  const lines = head.split('\n').map((line) => line.split(': ', 2));
  const headers = Object.fromEntries(lines.map(([name = '', value = '']) => [name.toLowerCase(), value]));
  judge({ headers, body: Buffer.from(body, 'latin1') }, WEBHOOK_SECRETS, NOW);
}
