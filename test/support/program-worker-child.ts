/**
 * A process that runs commands of one copy of the built program in itself, one after another, and compares mirrors with what the feed has
 * published. Damage may crash it. The argument is the folder of the program; the first message is what was published.
 */

import { globSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { DuckDBInstance } from '@duckdb/node-api';
import type { start } from '../../src/cli/program.ts';
import { present } from '../../src/lib/assert.ts';
import { systemRandom } from '../../src/lib/backoff.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { collector } from './collector.ts';
import { contextOf, IDENTITY, type Said } from './command-line.ts';
import { mirrorDifferences } from './mirror-comparison.ts';
import type { Answer, Asked, SentExpectation } from './program-worker.ts';
import type { Expectation } from './published.ts';
import { warmScripts } from './warm-script.ts';

type Start = typeof start;

/** Takes what main.ts of the program takes from others. */
const OWNER_ALONE = 0o077;
const WIDTH = 120;

/** The start of the command line is the one export of a file of its own. */
async function startOf(program: string): Promise<Start> {
  const [file] = globSync('program-*.js', { cwd: program });
  if (file === undefined) throw new Error(`${program} has no command line`);
  const loaded: { readonly start: Start } = await import(pathToFileURL(join(program, file)).href);
  return loaded.start;
}

async function run(
  startProgram: Start,
  { words, environment, workingDirectory = process.cwd() }: Extract<Asked, { readonly kind: 'run' }>,
): Promise<Said> {
  const [stdout, stderr] = [collector(), collector()];
  const terminal = {
    ...{ stdout, stderr, width: WIDTH, height: null, resultWidth: null },
    ...{ isWatched: false, hasColor: false },
  };
  const exitCode = await startProgram(words, '1.2.3', {
    ...contextOf(terminal, workingDirectory, environment, systemClock),
    identity: { ...IDENTITY, uid: process.getuid?.() ?? null },
    random: systemRandom,
    readStandardInput: async () => '',
  });
  return { exitCode, stdout: stdout.text(), stderr: stderr.text() };
}

/** Every table is read to its end, those of the past, too, but for those that are kept because they cannot be read. */
async function differences(path: string, expected: Expectation): Promise<readonly string[]> {
  try {
    await readWhole(path);
  } catch (error) {
    return [`cannot be read: ${error}`];
  }
  return mirrorDifferences(path, expected).catch((error: unknown) => [String(error)]);
}

async function readWhole(path: string): Promise<void> {
  const instance = await DuckDBInstance.create(path, { access_mode: 'READ_ONLY', threads: '1' });
  try {
    const connection = await instance.connect();
    const tables = await connection.runAndReadAll(
      `SELECT format('"{}"."{}"', schema_name, replace(table_name, '"', '""')) FROM duckdb_tables()
        WHERE NOT internal AND NOT (schema_name IN ('archived', 'history') AND contains(table_name, '__damaged'))`,
    );
    for (const [table] of tables.getRows()) await connection.run(`SELECT sum(hash(t)) FROM ${table} AS t`);
    connection.closeSync();
  } finally {
    instance.closeSync();
  }
}

function expectationOf({ datasets, ...rest }: SentExpectation): Expectation {
  return {
    ...rest,
    datasets: datasets.map(({ datasetId, version, rows }) => ({
      datasetId,
      version: { ...version, content: { ...version.content, rows: () => rows } },
    })),
  };
}

const [program = ''] = process.argv.slice(2);
process.umask(OWNER_ALONE);
warmScripts();
const startProgram = startOf(program);
let expected: Expectation | null = null;

async function answerTo(asked: Exclude<Asked, { readonly kind: 'expect' }>): Promise<Answer> {
  if (asked.kind === 'run') return run(await startProgram, asked);
  return differences(asked.path, present(expected, 'the expectation came first'));
}

process.on('message', async (asked: Asked) => {
  if (asked.kind === 'expect') expected = expectationOf(asked.expected);
  else process.send?.(await answerTo(asked));
});

// The process that is warm would keep this one alive.
process.on('disconnect', () => process.exit());
