/** What an operator sees on a real terminal: the program in a pseudo terminal, its output played into a screen. */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { builtProgram } from '../support/built-program.ts';
import { countyFeed } from '../support/county-feed.ts';
import { eventually } from '../support/patience.ts';
import { TerminalScreen } from '../support/terminal-screen.ts';

const MAIN = builtProgram();
const SIZE = { width: 80, height: 24 };
/** Of util-linux: gives a program a terminal. */
const hasScript = spawnSync('script', ['--version']).status === 0;

type Feed = Awaited<ReturnType<typeof countyFeed>>['feed'];

/** Downloads take a second or two. */
function slowly(feed: Feed): void {
  feed.faults.add({
    match: { operation: 'file', times: 'always' },
    act: { kind: 'drip', bytes: 15_000, everyMs: 100 },
  });
}

/** Downloads begin, break off, and go on when the test says so. */
function stopping(feed: Feed): () => void {
  const goesOn = Promise.withResolvers<void>();
  for (const datasetId of feed.store.datasets.keys()) {
    const match = { operation: 'file', datasetId } as const;
    feed.faults.add({ match, act: { kind: 'truncate', afterBytes: 2_000 } });
    const act = { kind: 'wait', until: () => goesOn.promise } as const;
    feed.faults.add({ match: { ...match, nth: 2, times: 'always' }, act });
  }
  return goesOn.resolve;
}

/** A catch-up or a daemon in a terminal. */
async function inTerminal(
  { feed }: Pick<Awaited<ReturnType<typeof countyFeed>>, 'feed'>,
  command: string,
  environment: Readonly<Record<string, string>> = {},
) {
  const dataDirectory = mkdtempSync(join(tmpdir(), 'feed-sync-terminal-'));
  const words = `stty cols ${SIZE.width} rows ${SIZE.height}; exec ${process.execPath} ${MAIN} ${command}`;
  const child = spawn('script', ['-qec', words, '/dev/null'], {
    env: {
      PATH: process.env['PATH'],
      TERM: 'xterm-256color',
      FEED_SYNC_BASE_URL: feed.baseUrl,
      FEED_SYNC_API_KEY: feed.apiKey,
      FEED_SYNC_DATA_DIR: dataDirectory,
      FEED_SYNC_STATUS_LISTEN: '127.0.0.1:0',
      FEED_SYNC_DISK_RESERVE: '0MB',
      ...environment,
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
    rmSync(dataDirectory, { recursive: true, force: true });
  });
  const screen = new TerminalScreen(SIZE.width, SIZE.height);
  const seen = { text: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    seen.text += text;
    screen.write(text);
  });
  const shows = (text: RegExp): Promise<void> =>
    eventually(() => expect(screen.lines.join('\n')).toMatch(text));
  return { screen, seen, shows, ended, press: (key: string) => child.stdin.write(key) };
}

describe.skipIf(!hasScript)('on a terminal', () => {
  it('once shows on a terminal what it does, and leaves nothing but its summary', async () => {
    const county = await countyFeed();
    const { datasetIds } = county;
    const goOn = stopping(county.feed);
    const { screen, seen, shows, ended } = await inTerminal(county, 'once');
    await shows(/Catching up: \d of \d+ datasets.*\n.* loading version \d+ .*[\d.]+ of [\d.]+ KB/);
    goOn();
    expect(await ended).toEqual([0, null]);
    expect(screen.lines.join('\n')).toMatch(
      new RegExp(
        `^${datasetIds.length} datasets in 1 subscription: ${datasetIds.length} loaded, [^\\n]*\\n(?:[^\\n]*\\n)?$`,
      ),
    );
    expect(seen.text).toContain('\u001b[1m');
  });

  it('run shows on a terminal only that it is idle, and ends with Ctrl-C and a clean screen', async () => {
    const county = await countyFeed();
    const { datasetIds } = county;
    slowly(county.feed);
    const { screen, shows, ended, press } = await inTerminal(county, 'run');
    await shows(
      new RegExp(`Idle: ${datasetIds.length} tables · last poll \\d+ s ago · next poll in \\d+ (?:s|m)\\n?$`),
    );
    press('\u0003');
    expect(await ended).toEqual([0, null]);
    const text = screen.lines.join('\n');
    expect(text).toMatch(/Stopped\. end stopped\n$/);
    expect(text).not.toMatch(/Idle|Working|loading version/);
    expect(text.match(/Loaded a snapshot\./g)).toHaveLength(datasetIds.length);
  });

  it.each([
    ['once has no colours on a terminal with NO_COLOR', { NO_COLOR: '1' }, '\u001b[1m'],
    ['writes no control sequence to a terminal that is dumb', { TERM: 'dumb' }, '\u001b'],
    ['draws nothing beside JSON lines', { FEED_SYNC_LOG_FORMAT: 'json' }, '\u001b'],
  ])('%s', async (_, environment, forbidden) => {
    const county = await countyFeed();
    slowly(county.feed);
    const { seen, ended } = await inTerminal(county, 'once', environment);
    expect(await ended).toEqual([0, null]);
    expect(seen.text).toContain('loaded');
    expect(seen.text).not.toContain(forbidden);
  });
});
