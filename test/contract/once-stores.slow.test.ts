/** `feed-sync once` where the mirror or the checkpoint is gone, old, damaged, somebody else's, or cannot be written. */

import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { type Program, program } from '../support/program.ts';
import { everythingPublished } from '../support/published.ts';

const KINDS = ['permits', 'parcels', 'specimens'] as const;

/** What happens to the stores, between the second version of everything and the third of one dataset. */
const LOSSES: readonly {
  readonly what: string;
  readonly lose: (installed: Program, backup: string) => void;
  /** How many of the three datasets are downloaded again beside the one that is new. */
  readonly again: number;
  /** The mirror is known to have been there. */
  readonly isMissed?: true;
}[] = [
  { what: 'the mirror is deleted', lose: ({ mirrorPath }) => rmSync(mirrorPath), again: 2, isMissed: true },
  { what: 'the checkpoint is deleted', lose: ({ checkpointPath }) => rmSync(checkpointPath), again: 0 },
  {
    what: 'both are deleted',
    lose: ({ dataDirectory }) => rmSync(dataDirectory, { recursive: true }),
    again: 2,
  },
  {
    what: 'the mirror is restored from an older copy',
    lose: ({ mirrorPath }, backup) => copyFileSync(join(backup, 'mirror.duckdb'), mirrorPath),
    again: 2,
  },
  {
    what: 'the checkpoint is restored from an older copy',
    lose: ({ checkpointPath }, backup) => copyFileSync(join(backup, 'checkpoint.sqlite'), checkpointPath),
    again: 0,
  },
  {
    what: 'the mirror is restored and the checkpoint is deleted',
    lose: ({ mirrorPath, checkpointPath }, backup) => {
      copyFileSync(join(backup, 'mirror.duckdb'), mirrorPath);
      rmSync(checkpointPath);
    },
    again: 2,
  },
  {
    what: 'the mirror is deleted and the checkpoint restored',
    lose: ({ mirrorPath, checkpointPath }, backup) => {
      rmSync(mirrorPath);
      copyFileSync(join(backup, 'checkpoint.sqlite'), checkpointPath);
    },
    again: 2,
    isMissed: true,
  },
];

describe('the loss of a store', () => {
  it('F03 F04 the next once repairs the loss of mirror, checkpoint or both', async () => {
    const { feed, datasetIds, datasetOf, publishNext } = await countyFeed({ kinds: KINDS });
    const installed = await program({ feed });
    await once(installed);
    const old = backUp(installed, 'old');
    // Loaded from snapshots, so that what is loaded again can be counted.
    const unrecorded = { notRecordedAs: 'flag' } as const;
    for (const datasetId of datasetIds) publishNext(datasetId, undefined, unrecorded);
    await once(installed);
    const before = backUp(installed, 'before');
    publishNext(datasetOf('permits'), undefined, unrecorded);
    for (const { what, lose, again, isMissed } of LOSSES) {
      rmSync(installed.dataDirectory, { recursive: true });
      cpSync(before, installed.dataDirectory, { recursive: true });
      lose(installed, old);
      feed.requests.clear();
      const { exitCode, stderr } = await installed.run('once');
      expect(exitCode, what).toBe(0);
      expect(stderr.includes('The mirror is missing'), what).toBe(isMissed === true);
      expect(stderr.split('"msg":"Loaded a snapshot."'), what).toHaveLength(1 + 1 + again);
      expect(await mirrorDifferences(installed.mirrorPath, everythingPublished(feed)), what).toEqual([]);
      expect(downloadsOf(feed), what).toHaveLength(1 + again);
    }
    expect((await once(installed)).stdout).toContain('0 loaded, 3 already up to date');
  });
});

describe('a mirror that once cannot use', () => {
  it('F05 once quarantines a corrupt mirror and builds it anew', async () => {
    const { feed } = await countyFeed({ kinds: KINDS });
    const installed = await program({ feed });
    await once(installed);
    const bytes = readFileSync(installed.mirrorPath);
    // The headers stay, what they point to does not.
    bytes.fill(0x5a, 12_288);
    writeFileSync(installed.mirrorPath, bytes);
    const { stderr } = await once(installed);
    await expectMirrored(installed, feed);
    const quarantined = readdirSync(installed.dataDirectory).filter((name) =>
      name.startsWith('mirror.duckdb.corrupt-'),
    );
    expect(quarantined).toHaveLength(1);
    expect(readFileSync(join(installed.dataDirectory, quarantined[0] ?? '')).equals(bytes)).toBe(true);
    expect(stderr).toContain('corrupt-');
  });

  it('F05 once quarantines a mirror three times, and ends with 74 at the fourth, which it leaves where it is', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    const quarantined = () =>
      readdirSync(installed.dataDirectory).filter((name) => name.includes('.corrupt-'));
    const damage = (): Buffer => {
      const bytes = readFileSync(installed.mirrorPath).fill(0x5a, 12_288);
      writeFileSync(installed.mirrorPath, bytes);
      return bytes;
    };
    await once(installed);
    for (let time = 1; time <= 3; time += 1) {
      damage();
      await once(installed);
      await expectMirrored(installed, feed);
      expect(quarantined()).toHaveLength(time);
    }
    const bytes = damage();
    const ended = await once(installed, 74);
    expect(`${ended.stdout}${ended.stderr}`).toContain(`${installed.mirrorPath} cannot be read`);
    expect(readFileSync(installed.mirrorPath).equals(bytes)).toBe(true);
    expect(quarantined()).toHaveLength(3);
  });

  it('once does not touch a mirror that is no DuckDB file: 78', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    mkdirSync(installed.dataDirectory);
    const text = 'the thesis of a lifetime\n'.repeat(1_000);
    writeFileSync(installed.mirrorPath, text);
    const ended = await once(installed, 78);
    expect(`${ended.stdout}${ended.stderr}`).toContain(`${installed.mirrorPath} is no DuckDB database`);
    expect(readFileSync(installed.mirrorPath, 'utf8')).toBe(text);
  });

  it('once does not touch the mirror of another service: 78', async () => {
    const [own, other] = [await countyFeed({ kinds: ['permits'] }), await countyFeed({ kinds: ['permits'] })];
    const installed = await program({ feed: own.feed });
    await once(installed);
    const before = readFileSync(installed.mirrorPath);
    const ended = await installed.runWith({ FEED_SYNC_BASE_URL: other.feed.baseUrl }, 'once');
    expect(ended).toMatchObject({ exitCode: 78 });
    expect(`${ended.stdout}${ended.stderr}`).toContain(
      `The mirror belongs to the service at ${own.feed.baseUrl}, not to ${other.feed.baseUrl}.`,
    );
    expect(downloadsOf(other.feed)).toEqual([]);
    expect(readFileSync(installed.mirrorPath).equals(before)).toBe(true);
    await once(installed);
    await expectMirrored(installed, own.feed);
  });

  it('once does not touch the mirror of subscriptions that the key no longer sees: 78', async () => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    await once(installed);
    feed.publisher.unsubscribe('sub_1');
    feed.publisher.subscribe({ subscriptionId: 'sub_9', datasetIds: [datasetOf('permits')] });
    const ended = await once(installed, 78);
    expect(`${ended.stdout}${ended.stderr}`).toContain('The mirror belongs to the subscriptions sub_1');
  });
});

describe('a damaged checkpoint', () => {
  it('F03 once quarantines a damaged checkpoint and builds it anew', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ kinds: KINDS });
    const installed = await program({ feed });
    await once(installed);
    writeFileSync(
      installed.checkpointPath,
      'no database any more, and longer than a header of one'.repeat(100),
    );
    publishNext(datasetOf('permits'));
    await once(installed);
    await expectMirrored(installed, feed);
    expect(readdirSync(installed.dataDirectory).join()).toContain('checkpoint.sqlite.corrupt-');
  });
});

describe('an unusable data directory', () => {
  it('F11 once names a data directory below a file: 74', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    const file = join(installed.home, 'a-file');
    writeFileSync(file, '');
    const ended = await installed.runWith({ FEED_SYNC_DATA_DIR: join(file, 'data') }, 'once');
    expect(ended).toMatchObject({ exitCode: 74 });
    expect(ended.stderr).toContain(join(file, 'data'));
    expect(feed.requests.entries()).toEqual([]);
  });

  it.skipIf(process.getuid?.() === 0)(
    'F11 once names a data directory of another user and its own user: 74 (skipped for root, who may write anywhere)',
    async () => {
      const { feed } = await countyFeed({ kinds: ['permits'] });
      const installed = await program({ feed });
      mkdirSync(installed.dataDirectory, { mode: 0o500 });
      const { stderr } = await once(installed, 74);
      expect(stderr).toContain(installed.dataDirectory);
      expect(stderr).toContain(String(process.getuid?.()));
      expect(feed.requests.entries()).toEqual([]);
    },
  );
});

/** A copy of the data directory, with no instance running: both stores are in their files and nowhere else. */
function backUp({ dataDirectory, home }: Program, name: string): string {
  const backup = join(home, name);
  cpSync(dataDirectory, backup, { recursive: true });
  expect(readdirSync(backup).filter((file) => /[-.]wal$/.test(file))).toEqual([]);
  return backup;
}
