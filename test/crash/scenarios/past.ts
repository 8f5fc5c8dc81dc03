/** Scenarios of tables whose past is kept: undo logs are written, closed, frozen and forgotten, each with its commit or not at all. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { withAddedColumn, withRemovedColumn } from '../../../fixtures/source/evolve.ts';
import type { CountyFeed } from '../../support/county-feed.ts';
import { once } from '../../support/expect-mirrored.ts';
import { writeMirror } from '../../support/mirror-file.ts';
import { tableNameOf } from '../../support/published.ts';
import { column } from '../../support/small-content.ts';
import type { Scenario, Stage } from '../scenario.ts';

const HISTORY = { FEED_SYNC_HISTORY_DATASETS: '*' };
const KEPT = { ...HISTORY, FEED_SYNC_REMOVED_DATASETS: 'keep' };

/** No changes of the version are recorded, so that its snapshot is loaded. */
const UNRECORDED = { notRecordedAs: 'flag' } as const;

export const PAST: readonly Scenario[] = [
  {
    name: 'log',
    summary: 'changes of a table whose past is kept, and a reload that adds a column to another one',
    environment: HISTORY,
    killedAt: 'its own names',
    async validate(stage) {
      const { zoning, permits } = await loggedOnce(stage);
      stage.county.publishNext(zoning);
      const note = column('note', 'string');
      stage.county.publishNext(
        permits,
        withAddedColumn(stage.county.contentOf(permits), note, () => 'new'),
      );
      return {};
    },
  },
  {
    name: 'close',
    summary: 'a reload of a table whose rows were altered by hand, which closes its undo log',
    environment: HISTORY,
    killedAt: 'its own names',
    async validate(stage) {
      const { permits } = await loggedOnce(stage);
      const table = tableNameOf(permits);
      await writeMirror(
        stage.installed.mirrorPath,
        `UPDATE ${table} SET ${dataColumn(stage, permits)} = NULL`,
      );
      stage.county.publishNext(permits, undefined, UNRECORDED);
      return {};
    },
  },
  {
    name: 'freeze',
    summary: 'a table whose past is kept loses a column, and another one retires',
    environment: HISTORY,
    killedAt: 'its own names',
    async validate(stage) {
      const { zoning, permits } = await loggedOnce(stage);
      freeze(stage.county, zoning);
      stage.county.feed.publisher.remove(permits, 'left_coverage');
      return {};
    },
  },
  {
    name: 'keep the past',
    summary: 'datasets whose past is kept retire; their tables stay where they are',
    environment: KEPT,
    killedAt: 'its own names',
    async validate(stage) {
      await loggedOnce(stage);
      for (const id of stage.county.datasetIds) stage.county.feed.publisher.remove(id, 'left_coverage');
      return {};
    },
  },
  {
    name: 'return',
    summary: 'datasets whose past is kept come back, and their tables take the place of those that were kept',
    environment: KEPT,
    killedAt: 'its own names',
    async validate(stage) {
      const { county, installed } = stage;
      await loggedOnce(stage);
      for (const id of county.datasetIds) county.feed.publisher.remove(id, 'left_coverage');
      await once(installed);
      for (const id of county.datasetIds) county.feed.publisher.restore(id);
      return {};
    },
  },
  {
    name: 'forget the past',
    summary: 'entries of an undo log, and a frozen table with its log, are older than they are to be kept',
    environment: HISTORY,
    killedAt: 'its own names',
    async validate(stage) {
      const { county, installed } = stage;
      const { zoning, permits } = await loggedOnce(stage);
      freeze(county, zoning);
      county.publishNext(permits);
      await once(installed);
      await writeMirror(
        installed.mirrorPath,
        'UPDATE feed_sync.commits SET applied_at = applied_at - INTERVAL 100 DAY',
        'UPDATE feed_sync.history_logs SET first_time = first_time - INTERVAL 100 DAY',
      );
      return {};
    },
  },
  {
    name: 'checksums',
    summary: '`verify --deep` of tables whose checksums were not recorded',
    killedAt: 'its own names',
    async validate(stage) {
      const { installed } = stage;
      await once(installed);
      await writeMirror(installed.mirrorPath, 'UPDATE feed_sync.datasets SET checksum = NULL');
      return {
        words: ['verify', '--deep'],
        // Who only reads leaves the log of the checkpoint as the killed process has left it.
        mayDiffer: ['files'],
        wrongAtTheEnd: async () => unproven(stage),
      };
    },
  },
];

/** Two versions of each dataset are mirrored, so that each log has entries. */
async function loggedOnce({ county, installed }: Stage) {
  await once(installed);
  for (const datasetId of county.datasetIds) county.publishNext(datasetId);
  await once(installed);
  return { zoning: county.datasetOf('zoning'), permits: county.datasetOf('permits') };
}

function dataColumn({ county }: Stage, datasetId: string): string {
  const { columns, keyColumns } = county.contentOf(datasetId).schema;
  return columns.find(({ name }) => !keyColumns.includes(name))?.name ?? '';
}

function freeze(county: CountyFeed, datasetId: string): void {
  const { columns, keyColumns } = county.contentOf(datasetId).schema;
  const less = columns.find(({ name }) => !keyColumns.includes(name))?.name ?? '';
  county.publishNext(datasetId, withRemovedColumn(county.contentOf(datasetId), less));
}

/** Every table has a recorded checksum, which is that of its rows. */
async function unproven({ installed }: Stage): Promise<readonly string[]> {
  const { exitCode, stdout } = await installed.run('verify', '--json');
  const missing = await installed.run(
    'query',
    'SELECT count(*) AS missing FROM feed_sync.datasets WHERE checksum IS NULL',
    '--format',
    'json',
  );
  return [
    ...(existsSync(join(installed.dataDirectory, 'verify')) ? ['the folder of verify --deep is left'] : []),
    ...(exitCode === 0 ? [] : [`verify ended with ${exitCode}: ${stdout}`]),
    ...(missing.stdout.trim() === '{"missing":0}' ? [] : [`checksums are missing: ${missing.stdout}`]),
  ];
}
