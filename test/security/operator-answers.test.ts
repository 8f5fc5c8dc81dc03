/** F38 answers of the service to an operator's commands may be hostile as well: they are printed, and no more. */

import { mkdirSync, readdirSync } from 'node:fs';
import { expect, it, onTestFinished } from 'vitest';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { Operation } from '../../fixtures/feed/operations.ts';
import { type CommandLine, commandLine } from '../support/command-line.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { publishSmall } from '../support/started-feed.ts';
import { expectHarmless } from './harmless.ts';
import { HOSTILE, MARK, UNWRITABLE } from './hostile-texts.ts';
import { pathName, textPaths, withNames, withText } from './wire-texts.ts';

const COMMANDS: readonly (readonly [Operation, readonly string[], readonly string[]])[] = [
  ['coverage', ['coverage'], ['counties[].id', 'counties[].name', 'counties[].state']],
  ['coverage', ['coverage', '--json'], ['counties[].id', 'counties[].name', 'counties[].state']],
  ['watches', ['watches'], ['watches[].datasetId', 'watches[].createdAt']],
  ['watches', ['watches', '--json'], ['watches[].datasetId', 'watches[].createdAt']],
];

it.each(COMMANDS)(
  'F38 prints hostile texts in every field of the answer of %s harmlessly in feed-sync %j',
  async (operation, words, fields) => {
    const { feed, line } = await installed();
    const body = await answerOf(feed, line, operation, words);
    const paths = textPaths(body);
    expect(paths.map(pathName)).toEqual(fields);
    const changes = [
      ...paths.map((path) => (sent: unknown) => withText(sent, path, HOSTILE)),
      (sent: unknown) => paths.reduce((changed, path) => withText(changed, path, UNWRITABLE), sent),
      (sent: unknown) => withNames(sent, HOSTILE),
    ];
    for (const [index, rewrite] of changes.entries()) {
      feed.faults.clear();
      feed.faults.add({ match: { operation, times: 'always' }, act: { kind: 'rewrite', rewrite } });
      expectHarmless(await line.run(...words), `${words.join(' ')}, change ${index}`);
    }
    const files = readdirSync(line.dataDirectory, { recursive: true }).map(String);
    expect(files.filter((path) => path.includes(MARK))).toEqual([]);
  },
);

async function installed(): Promise<{ readonly feed: FixtureFeed; readonly line: CommandLine }> {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  publishSmall(feed, ['parcels']);
  const line = commandLine({ feed, now: () => new Date() });
  onTestFinished(() => line.remove());
  mkdirSync(line.dataDirectory);
  expect(await line.run('watch', 'parcels')).toMatchObject({ exitCode: 0 });
  return { feed, line };
}

async function answerOf(
  feed: FixtureFeed,
  line: CommandLine,
  operation: Operation,
  words: readonly string[],
): Promise<unknown> {
  let answer: unknown = null;
  const rewrite = (body: unknown): unknown => {
    answer = body;
    return body;
  };
  feed.faults.add({ match: { operation }, act: { kind: 'rewrite', rewrite } });
  expect(await line.run(...words)).toMatchObject({ exitCode: 0 });
  return answer;
}
