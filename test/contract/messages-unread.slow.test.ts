/** What becomes of the work where nobody reads its messages any more: a pager that was left, a log collector that ended. */

import { spawn } from 'node:child_process';
import { once as onceEvent } from 'node:events';
import process from 'node:process';
import { expect, it } from 'vitest';
import { builtProgram } from '../support/built-program.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectMirrored } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';

it('once goes on to its end, and ends with its own exit code', async () => {
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
