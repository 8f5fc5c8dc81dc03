/** The courses of the recorded installations. */

import { join } from 'node:path';
import type { OpenCountyFeed, OpenCountyFeedOptions } from '../support/open-county-feed.ts';

/** How a command of the recording ends where it is not by itself, with 0. */
export interface Ends {
  readonly exitCode?: number;
  /** The moment at which it is killed: `before destination.checkpoint`. */
  readonly killAt?: string;
}

export interface Course {
  readonly feed: OpenCountyFeedOptions;
  /** The settings of the installation, from its folder on. */
  settings(home: string): Readonly<Record<string, string>>;
  /** The paths of the mirror and of its copy in that folder. */
  readonly mirror: string;
  readonly copy: string;
  /** The further files, by their paths in that folder, that a command has promised when it ends. */
  readonly promised: RegExp;
  /** Whether damaged stores are quarantined in it. */
  readonly mayQuarantine: boolean;
  play(stage: Stage): Promise<void>;
}

export interface Stage {
  readonly county: OpenCountyFeed;
  readonly home: string;
  run(words: readonly string[], ends?: Ends): Promise<void>;
  /** The disk damages a file of that path in the folder. `isLoss`: what was reported before need not be there any more. */
  damage(path: string, damaged: (bytes: Buffer) => Buffer, isLoss: boolean): void;
}

const OFFLINE = 75;
const KINDS = ['zoning', 'permits'] as const;
const SETTINGS = {
  FEED_SYNC_HISTORY_DATASETS: '*',
  FEED_SYNC_DISK_RESERVE: '0MB',
  FEED_SYNC_DUCKDB_THREADS: '1',
};

/** Each store where it is by default: loaded, followed, loaded again, compacted, and published all the while. */
const TOGETHER: Course = {
  feed: { kinds: KINDS, rowsPerDataset: 30 },
  settings: (home) => ({
    ...SETTINGS,
    FEED_SYNC_DATA_DIR: join(home, 'kept', 'data'),
    FEED_SYNC_DESTINATION_PUBLISH: join(home, 'served', 'out', 'copy.duckdb'),
  }),
  mirror: 'kept/data/mirror.duckdb',
  copy: 'served/out/copy.duckdb',
  promised: /^$/,
  mayQuarantine: false,
  async play({ county, run }) {
    await run(['once']);
    publishAll(county);
    await run(['once']);
    await run(['resync', '--all', '--yes']);
    await run(['once']);
    publishAll(county);
    await run(['once']);
    await run(['compact']);
    await run(['once']);
  },
};

/** Each store in a folder of its own, an export, files without digests that are cut, and what operators write to files. */
const APART: Course = {
  feed: { kinds: KINDS, rowsPerDataset: 30, files: { sha256: false } },
  settings: (home) => ({
    ...SETTINGS,
    FEED_SYNC_DATA_DIR: join(home, 'data'),
    FEED_SYNC_DESTINATION_PATH: join(home, 'mirrors', 'own', 'mirror.duckdb'),
    FEED_SYNC_CHECKPOINT_PATH: join(home, 'checkpoints', 'own', 'checkpoint.sqlite'),
    FEED_SYNC_DESTINATION_PUBLISH: join(home, 'out', 'copy.duckdb'),
    FEED_SYNC_EXPORT_PATH: join(home, 'exported', 'own'),
  }),
  mirror: 'mirrors/own/mirror.duckdb',
  copy: 'out/copy.duckdb',
  promised: /^(?:made\.yaml|rows\.csv|secrets|exported\/own\/[^.].*)$/,
  mayQuarantine: false,
  async play({ county, home, run }) {
    const { feed } = county;
    await run(['init', join(home, 'made.yaml')]);
    feed.faults.add({
      match: { operation: 'file', times: 'always' },
      act: { kind: 'truncate', afterBytes: 50 },
    });
    await run(['once'], { exitCode: OFFLINE });
    feed.faults.clear();
    await run(['once']);
    await run(['query', 'SELECT 1 AS one', '--output', join(home, 'rows.csv'), '--yes']);
    await run(['webhook', 'add', 'http://127.0.0.1:1/webhook', '--secret-file', join(home, 'secrets')]);
    publishAll(county);
    await run(['once']);
    await run(['verify', '--deep']);
    await run(['compact']);
    publishAll(county);
    await run(['once']);
    await run(['webhook', 'remove', feed.webhooks.list().at(-1)?.webhookId ?? '', '--yes']);
  },
};

/** Headers of a DuckDB file: they stay, and what they point to does not. */
const HEADER_BYTES = 12_288;
const SECTOR_BYTES = 512;
const NO_DATABASE = Buffer.from('no database, and longer than the header of one. '.repeat(100));

/** Stores are damaged, and quarantined. */
const DAMAGED: Course = {
  ...TOGETHER,
  mayQuarantine: true,
  async play({ county, run, damage }) {
    const killed = async (): Promise<void> => {
      publishAll(county);
      await run(['once'], { killAt: 'before destination.checkpoint' });
    };
    await run(['once']);
    await killed();
    damage(
      'kept/data/mirror.duckdb.wal',
      (bytes) => Buffer.concat([bytes, Buffer.alloc(SECTOR_BYTES)]),
      false,
    );
    await run(['once']);
    await killed();
    damage('kept/data/checkpoint.sqlite', (bytes) => bytes.fill(0, 0, SECTOR_BYTES), false);
    await run(['once']);
    await killed();
    damage('kept/data/mirror.duckdb.wal', () => NO_DATABASE, true);
    await run(['once']);
    await killed();
    damage('kept/data/mirror.duckdb', (bytes) => bytes.fill(0x5a, HEADER_BYTES), true);
    await run(['once']);
  },
};

export const COURSES = { together: TOGETHER, apart: APART, damaged: DAMAGED };
export type CourseName = keyof typeof COURSES;

function publishAll({ datasetIds, publishNext }: OpenCountyFeed): void {
  for (const datasetId of datasetIds) publishNext(datasetId);
}
