#!/usr/bin/env node
/** The process: gathers what is ambient, runs a command, and ends with its exit code. */

import { accessSync, constants, readFileSync } from 'node:fs';
// As a whole: an older Node lacks some of its names, and would not even load this file.
import nodeModule from 'node:module';
import { arch, availableParallelism, hostname, release, totalmem, type } from 'node:os';
import { isatty } from 'node:tty';
import { getHeapStatistics } from 'node:v8';
import type { Context } from './cli/context.ts';
import { haveWait, waitsForOtherEnd } from './lib/standard-streams.ts';

const LEAST_NODE_MAJOR = 24;
const WRONG_CONFIGURATION = 78;
const DEFAULT_WIDTH = 120;
const DEFAULT_HEIGHT = 24;
/** Takes every permission of group and others from what this process makes. */
const OWNER_ALONE = 0o077;
/** A shell reports a process that a signal ended with this plus the signal's number. */
const ENDED_BY_SIGNAL = 128;
/** One Ctrl-C may arrive twice: from the terminal, and again from npm or npx, which pass it on. */
const SAME_REQUEST_MS = 250;
const SIGNALS = { SIGINT: 2, SIGTERM: 15 } as const;

/** Ends with a code at once, and has no threads. Where there is no shell, Node is started for that, which takes longer. */
const SHELL = '/bin/sh';

const ERASE_BELOW = '\r\u001b[J';

/** The standard streams that did so before Node opened them. An import of `node:process` has it open them at once. */
const waitedAtStart = [0, 1, 2].filter((fd) => waitsForOtherEnd(fd) ?? true);

const { version: nodeVersion } = process;
// The content of a feed may be private. The databases make their own files, and would make them for all to read.
process.umask(OWNER_ALONE);
if (Number.parseInt(nodeVersion.slice(1), 10) < LEAST_NODE_MAJOR) {
  process.stderr.write(`feed-sync needs Node ${LEAST_NODE_MAJOR} or newer, and this is ${nodeVersion}.\n`);
  process.stderr.write(
    '→ In a checkout, "npx feed-sync" runs on the Node that npm has installed beside it.\n',
  );
  process.exit(WRONG_CONFIGURATION);
}

// Only now, because what the rest imports may not even load on an older Node.
const { systemClock } = await import('./lib/clock.ts');
const { systemRandom } = await import('./lib/backoff.ts');
const { readText } = await import('./lib/files.ts');
const { InterruptedError } = await import('./model/errors.ts');
const { sourceStack } = await import('./lib/source-stack.ts');
const { start } = await import('./cli/program.ts');

const described = packageDescription();
const context: Context = {
  terminal: {
    stdout: process.stdout,
    stderr: process.stderr,
    isWatched: process.stderr.isTTY === true,
    hasColor: process.stderr.isTTY === true && process.stderr.hasColors(),
    get width() {
      return screenWidth();
    },
    get resultWidth() {
      return process.stdout.isTTY ? screenWidth() : null;
    },
    get height() {
      return screenHeight();
    },
  },
  environment: process.env,
  workingDirectory: process.cwd(),
  machine: {
    memoryBytes: totalmem(),
    constrainedMemoryBytes: process.constrainedMemory(),
    heapBytes: getHeapStatistics().heap_size_limit,
    cores: availableParallelism(),
  },
  identity: { pid: process.pid, host: hostname(), uid: process.getuid?.() ?? null },
  runtime: {
    nodeVersion: nodeVersion.slice(1),
    leastNodeVersion: described.engines.node.replace('>=', ''),
    operatingSystem: `${type()} ${release()} ${arch()}`,
  },
  readFile: readText,
  readStandardInput,
  ask: isatty(0) && process.stderr.isTTY ? ask : null,
  clock: systemClock,
  random: systemRandom,
  signal: stopSignal(),
  requests: {
    onReload: (listener) => void process.on('SIGHUP', listener),
    onPoll: (listener) => void process.on('SIGUSR2', listener),
  },
  microsecondsSinceBoot: () => process.hrtime.bigint() / 1_000n,
  endAtOnce,
};

openNoDebugger();
process.on('exit', becomeOneWithoutThreads);
nameSourcesOfUncaughtErrors();
goOnWhereNothingCanBeWritten();
process.exit(await start(process.argv.slice(2), described.version, context));

/** The first signal asks to stop cleanly; a second one ends the process at once. */
function stopSignal(): AbortSignal {
  const controller = new AbortController();
  let firstMs = 0;
  for (const [name, number] of Object.entries(SIGNALS)) {
    process.on(name, () => {
      if (controller.signal.aborted) {
        if (systemClock.monotonicMs() - firstMs > SAME_REQUEST_MS) endAtOnce(ENDED_BY_SIGNAL + number);
        return;
      }
      firstMs = systemClock.monotonicMs();
      const message = `Interrupted by ${name} before everything was caught up.`;
      const hint = 'What was committed is kept; the next catch-up carries on from there.';
      controller.abort(new InterruptedError(message, { hint }));
    });
  }
  return controller.signal;
}

function endAtOnce(code: number): never {
  // Lines that were drawn below the cursor must not stay in the way of other programs.
  if (screenHeight() !== null) process.stderr.write(ERASE_BELOW);
  return process.exit(code);
}

/**
 * An exit waits for the threads of the process without end. One may be in a statement that ends in an hour, or never; one of
 * Node's compilers may be waiting for a garbage collection, which nobody makes during an exit (Node's issue 54918). So the
 * process becomes another one, which has no threads and ends with the code.
 */
function becomeOneWithoutThreads(code: number): void {
  nodeModule.flushCompileCache();
  const streams = [process.stdin, process.stdout, process.stderr];
  for (const fd of waitedAtStart) haveWait(fd, streams[fd]);
  const [path, ...words] = hasShell()
    ? [SHELL, '-c', `exit ${code}`]
    : [process.execPath, '--eval', `process.exit(${code})`];
  process.execve?.(path, [path, ...words], {});
}

function hasShell(): boolean {
  try {
    accessSync(SHELL, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function readStandardInput(maxCharacters: number): Promise<string> {
  let text = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk;
    if (text.length > maxCharacters) break;
  }
  return text;
}

/** Ctrl-C ends the question, too. */
async function ask(question: string): Promise<string> {
  const { createInterface } = await import('node:readline/promises');
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const end = new AbortController();
  lines.once('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  lines.once('close', () => end.abort());
  context.signal.addEventListener('abort', () => end.abort(), { once: true });
  try {
    return await lines.question(question, { signal: end.signal });
  } catch (error) {
    if (!end.signal.aborted) throw error;
    context.signal.throwIfAborted();
    return '';
  } finally {
    lines.close();
  }
}

/** A terminal that does not know its size says 0. Either stream may be a file while the other is the screen. */
function screenWidth(): number {
  return process.stderr.columns || process.stdout.columns || DEFAULT_WIDTH;
}

/** A terminal that is dumb knows no control sequences: what is written there stays. */
function screenHeight(): number | null {
  return process.stderr.isTTY && process.env['TERM'] !== 'dumb'
    ? process.stderr.rows || DEFAULT_HEIGHT
    : null;
}

/** Node's own answer to SIGUSR1 is a debugger that every user of this machine can reach. A listener takes its place. */
function openNoDebugger(): void {
  process.on('SIGUSR1', () => {});
}

/** Node prints the stack of an error that nobody catches once every listener has seen it. */
function nameSourcesOfUncaughtErrors(): void {
  process.on('uncaughtExceptionMonitor', (error) => {
    error.stack = sourceStack(error);
    // Node prints the stack after the listeners of the exit, and what the process has become would print nothing.
    process.off('exit', becomeOneWithoutThreads);
  });
}

/** A reader that leaves, or a full disk, ends no work: `write` gets the error, and the exit code says how the work ended. */
function goOnWhereNothingCanBeWritten(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
}

/** Returns the fields of package.json that the program reads. */
function packageDescription(): { readonly version: string; readonly engines: { readonly node: string } } {
  return JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
}
