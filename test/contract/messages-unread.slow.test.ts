/** What becomes of the work where nobody reads what it writes any more, or a full disk takes none of it. */

import { spawn } from 'node:child_process';
import { once as onceEvent } from 'node:events';
import process from 'node:process';
import { expect, it } from 'vitest';
import { builtProgram } from '../support/built-program.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectMirrored } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';

it('once finishes its work when nobody reads its messages, and ends with its own exit code', async () => {
  const { feed } = await countyFeed();
  const installed = await program({ feed });
  const script =
    '{ "$@" --log-level trace 2>&1 >/dev/null; echo "ended with $?" >&3; } 3>&2 | head -n 1 >/dev/null';
  const shell = spawn('sh', ['-c', script, 'sh', process.execPath, builtProgram(), 'once'], {
    env: {
      PATH: process.env['PATH'],
      FEED_SYNC_BASE_URL: feed.baseUrl,
      FEED_SYNC_API_KEY: feed.apiKey,
      FEED_SYNC_DATA_DIR: installed.dataDirectory,
    },
  });
  let said = '';
  shell.stderr.on('data', (text) => {
    said += text;
  });
  await onceEvent(shell, 'close');
  expect(said).toBe('ended with 0\n');
  await expectMirrored(installed, feed);
});

/** Runs a command of an installation without a mirror, whose status is to be tried again later. */
async function exitCodeOf(redirected: string, ...words: readonly string[]) {
  const { dataDirectory } = await program();
  const script = `{ "$@" ${redirected}; echo "ended with $?" >&3; } 3>&2 | true`;
  const command = [process.execPath, builtProgram(), ...words];
  const shell = spawn('sh', ['-c', script, 'sh', ...command], {
    env: { PATH: process.env['PATH'], FEED_SYNC_DATA_DIR: dataDirectory },
  });
  let said = '';
  shell.stderr.on('data', (text) => {
    said += text;
  });
  await onceEvent(shell, 'close');
  return said;
}

it('a command whose output nobody reads ends with its own exit code', async () => {
  expect(await exitCodeOf('', 'status', '--check')).toBe('ended with 75\n');
});

it('a command reports a full disk for its output with 74, and ends with its own code where only messages are lost', async () => {
  expect(await exitCodeOf('>/dev/full', 'status', '--check')).toBe(
    'feed-sync: The output could not be written: no space left on device (ENOSPC). [storage_failed]\n' +
      '→ Free some space where it is written to, or write it elsewhere.\nended with 74\n',
  );
  expect(await exitCodeOf('2>/dev/full', 'query', 'SELECT 1')).toBe('ended with 75\n');
  expect(await exitCodeOf('>/dev/full', '--help')).toContain('ended with 74\n');
  expect(await exitCodeOf('>&- 2>&-', 'status', '--check')).toBe('ended with 75\n');
});

it.for(['version', 'nonsense', 'settings'])(
  'after %s the next program of a script waits at the pipes that it shares, and loses nothing',
  async (word) => {
    const { dataDirectory } = await program();
    const script = '"$@" >&2; echo ended >&2; cat || echo "cat ended with $?" >&2';
    const shell = spawn('sh', ['-c', script, 'sh', process.execPath, builtProgram(), word], {
      env: { PATH: process.env['PATH'], FEED_SYNC_DATA_DIR: dataDirectory },
    });
    const ended = onceEvent(shell, 'close');
    let said = '';
    for await (const text of shell.stderr) {
      said += text;
      if (said.includes('ended\n')) break;
    }
    const sent = 'far more than a pipe takes at once\n'.repeat(200_000);
    shell.stdin.end(sent);
    const received = await readAll(shell.stdout);
    await ended;
    expect(received.length).toBe(sent.length);
  },
);

async function readAll(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}
