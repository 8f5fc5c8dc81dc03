/** The content of a feed may be private: nothing that the program makes can be read by another user of the machine. */

import { globSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { program } from '../support/program.ts';

const GROUP_AND_OTHERS = 0o077;

it('makes every file and folder the owner’s alone, also a mirror in a folder that all may enter', async () => {
  const { feed } = await countyFeed();
  const installed = await program({ feed });
  const open = join(installed.home, 'open');
  mkdirSync(open, { mode: 0o755 });
  const ended = await installed.runWith({ FEED_SYNC_DESTINATION_PATH: join(open, 'mirror.duckdb') }, 'once');
  expect(ended).toMatchObject({ exitCode: 0 });
  await installed.run('init');
  const made = ['data', 'data/**', 'open/**', 'work/**'].flatMap((pattern) =>
    globSync(pattern, { cwd: installed.home }),
  );
  expect(made).toEqual(
    expect.arrayContaining(['data/checkpoint.sqlite', 'open/mirror.duckdb', 'work/feed-sync.yaml']),
  );
  const given = ['open', 'work'];
  const readable = made.filter(
    (path) => !given.includes(path) && (statSync(join(installed.home, path)).mode & GROUP_AND_OTHERS) !== 0,
  );
  expect(readable).toEqual([]);
});
