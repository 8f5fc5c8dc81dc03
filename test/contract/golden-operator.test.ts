/** What `coverage` and `watches` print, kept in golden files: every field with a value, and without one. */

import { expect, it, onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { type CommandLine, commandLine } from '../support/command-line.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { expectGolden, expectGoldenText } from '../support/golden.ts';
import { addOfAdams, publishSmall, startedFeed } from '../support/started-feed.ts';

it.each<['coverage' | 'watches', (installed: CommandLine) => Promise<unknown>, object]>([
  ['coverage', async () => {}, { name: null, state: null }],
  ['watches', (installed) => installed.run('watch', 'parcels', 'permits'), { createdAt: null }],
])('%s prints every field with a value and without one', async (command, validate, unsaid) => {
  const clock = stillClock('2026-03-01T12:00:00Z');
  const feed = await startedFeed({ apiKey: CANARY_KEY, clock });
  publishSmall(feed, ['parcels', 'permits']);
  addOfAdams(feed);
  const installed = commandLine({ feed, now: clock.now });
  onTestFinished(() => installed.remove());
  await validate(installed);
  // Of the last one the service says no more than it must.
  const rewrite = (body: unknown): unknown =>
    Object.fromEntries(
      Object.entries(Object(body)).map(([name, items]) => [
        name,
        Array.isArray(items) ? items.with(-1, { ...items.at(-1), ...unsaid }) : items,
      ]),
    );
  feed.faults.add({ match: { operation: command, times: 'always' }, act: { kind: 'rewrite', rewrite } });
  const json = await installed.run(command, '--json');
  expect(json).toMatchObject({ exitCode: 0, stderr: '' });
  expectGolden(`${command}/everything`, JSON.parse(json.stdout));
  expectGoldenText(`${command}/everything`, (await installed.run(command)).stdout);
});
