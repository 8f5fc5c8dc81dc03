/** A process that runs commands and reads mirrors, one after another, until damage ends it. */

import { type ChildProcess, fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { DatasetVersion } from '../../fixtures/feed/model.ts';
import type { Content, Row } from '../../fixtures/source/content.ts';
import type { Said } from './command-line.ts';
import { COMPILED } from './compiled.ts';
import type { Expectation } from './published.ts';

export type Asked =
  /** What the feed has published. */
  | { readonly kind: 'expect'; readonly expected: SentExpectation }
  | {
      readonly kind: 'run';
      readonly words: readonly string[];
      readonly environment: Readonly<Record<string, string>>;
      /** That of the process, where there is none. */
      readonly workingDirectory?: string;
    }
  /** What differs in the mirror at the path from what was published. */
  | { readonly kind: 'differences'; readonly path: string };

export type Answer = Said | readonly string[];

/** An expectation without functions, which no message can carry. */
export interface SentExpectation extends Omit<Expectation, 'datasets'> {
  readonly datasets: readonly {
    readonly datasetId: string;
    readonly version: Omit<DatasetVersion, 'content'> & { readonly content: Omit<Content, 'rows'> };
    readonly rows: readonly Row[];
  }[];
}

/** The process has ended before it answered, by itself or because it hung. */
export class WorkerEnded extends Error {}

/** Longer than any command of a small installation takes on a machine that has much else to do. */
export const HANGS_AFTER_MS = 600_000;
const SCRIPT = fileURLToPath(new URL('program-worker-child.ts', import.meta.url));
/** Characters of what an ended process wrote. */
const MOST_SHOWN = 1_500;

export class Worker {
  readonly #child: ChildProcess;
  /** How it ended. */
  readonly #ended: Promise<string>;
  /** What differs in files, by their content. */
  readonly #known = new Map<string, readonly string[]>();
  #isHanging = false;

  /** `program`: the folder of the built program. `expected`: what mirrors are compared with, if any are. */
  constructor(program: string, expected: SentExpectation | null) {
    const child = fork(SCRIPT, [program], {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: { PATH: process.env['PATH'], TZ: 'UTC', ...COMPILED },
    });
    this.#child = child;
    this.#ended = endOf(child);
    if (expected !== null) this.#send({ kind: 'expect', expected });
  }

  run(
    words: readonly string[],
    environment: Readonly<Record<string, string>>,
    workingDirectory?: string,
  ): Promise<Said> {
    return this.#ask({ kind: 'run', words, environment, ...(workingDirectory && { workingDirectory }) });
  }

  /** A file that is a copy of one that was read is not read again. */
  async differences(path: string): Promise<readonly string[]> {
    const content = digestOf(path);
    const known =
      this.#known.get(content) ?? (await this.#ask<readonly string[]>({ kind: 'differences', path }));
    this.#known.set(content, known);
    return known;
  }

  async end(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }

  async #ask<Of extends Answer>(asked: Asked): Promise<Of> {
    const { promise, resolve, reject } = Promise.withResolvers<Of>();
    const hanging = setTimeout(() => {
      this.#isHanging = true;
      this.#child.kill('SIGKILL');
    }, HANGS_AFTER_MS);
    void this.#ended.then((how) => reject(new WorkerEnded(this.#isHanging ? 'it hung' : how)));
    this.#child.once('message', resolve);
    this.#send(asked);
    try {
      return await promise;
    } finally {
      clearTimeout(hanging);
      this.#child.off('message', resolve);
    }
  }

  /** A process that has ended takes no message; its end is reported to every waiting caller. */
  #send(message: Asked): void {
    this.#child.send(message, () => {});
  }
}

async function endOf(child: ChildProcess): Promise<string> {
  const written = child.stderr === null ? '' : text(child.stderr);
  const [code, signal]: (number | string | null)[] = await once(child, 'exit');
  return signal === null ? `${code}: ${(await written).trim().slice(-MOST_SHOWN)}` : String(signal);
}

/** Of a database and its log. */
function digestOf(path: string): string {
  const hash = createHash('sha256');
  for (const file of [path, `${path}.wal`]) {
    hash.update(existsSync(file) ? readFileSync(file) : '').update('|');
  }
  return hash.digest('hex');
}

export function sendable({ datasets, ...rest }: Expectation): SentExpectation {
  return {
    ...rest,
    datasets: datasets.map(({ datasetId, version }) => {
      const { schema, rowCount, rows } = version.content;
      const content = { schema, rowCount, changes: null };
      return { datasetId, version: { ...version, content, changes: null }, rows: [...rows()] };
    }),
  };
}
