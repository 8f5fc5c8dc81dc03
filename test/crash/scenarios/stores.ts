/** Scenarios of stores that cannot be read, or that an older version wrote. */

import { spawnSync } from 'node:child_process';
import { appendFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { onTestFinished } from 'vitest';
import { MAX_QUARANTINED } from '../../../src/lib/quarantine.ts';
import { restore } from '../../support/checkpoint-dump.ts';
import { once } from '../../support/expect-mirrored.ts';
import { steered } from '../../support/steered-process.ts';
import type { Scenario } from '../scenario.ts';

const FORMAT_4 = fileURLToPath(new URL('../../unit/checkpoint-formats/format-4.sql', import.meta.url));
/** Headers of a DuckDB file: they stay, and what they point to does not. */
const HEADER_BYTES = 12_288;
/** The rows that format 4 can store, by its table. */
const ROWS_OF_FORMAT_4: readonly (readonly [table: string, sql: string])[] = [
  ['contract', 'SELECT * FROM contract'],
  ['subscriptions', 'SELECT *, replayed_at AS quiet_read_at FROM subscriptions'],
  [
    'wants',
    `SELECT *, refreshes_requested AS looks_asked, refreshes_done AS looks_done, 0 AS resyncs_asked, 0 AS resyncs_done,
       (SELECT max(announced) FROM desired_members WHERE desired_members.dataset_id = desired_states.dataset_id)
         AS at_least_version
     FROM desired_states`,
  ],
  ['want_members', 'SELECT * FROM desired_members'],
];
/** A sector of a disk. */
const ZEROED_BYTES = 512;
const NO_DATABASE = 'no database, and longer than the header of one. '.repeat(100);

export const STORES: readonly Scenario[] = [
  {
    name: 'migrate',
    summary: 'an older version has written the checkpoint',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      toFormat4(installed.checkpointPath);
      for (const datasetId of county.datasetIds) county.publishNext(datasetId);
      return {};
    },
  },
  {
    name: 'checkpoint quarantined',
    summary: 'the checkpoint is damaged while another process reads it',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      for (const datasetId of county.datasetIds) county.publishNext(datasetId);
      // Where the log has not followed, the new checkpoint discards it.
      return { before: damagedWhileRead(installed.checkpointPath), mayDiffer: ['files'] };
    },
  },
  {
    name: 'mirror quarantined',
    summary: 'the mirror and its log cannot be read',
    killedAt: 'its own names',
    async validate({ installed }) {
      await once(installed);
      const bytes = readFileSync(installed.mirrorPath);
      bytes.fill(0x5a, HEADER_BYTES);
      writeFileSync(installed.mirrorPath, bytes);
      writeFileSync(`${installed.mirrorPath}.wal`, NO_DATABASE);
      return {};
    },
  },
  {
    name: 'torn log',
    summary: 'a loss of power has left zeroes at the end of the log of the mirror',
    killedAt: 'its own names',
    async validate({ installed }) {
      await installed.startWith(steered({ killAt: 'before destination.checkpoint' }), 'once').ended;
      appendFileSync(`${installed.mirrorPath}.wal`, Buffer.alloc(ZEROED_BYTES));
      for (let day = 1; day <= MAX_QUARANTINED; day += 1)
        writeFileSync(`${installed.mirrorPath}.corrupt-2026010${day}T000000000Z.wal`, 'of an earlier day');
      return {};
    },
  },
  {
    name: 'empty mirror',
    summary: 'the mirror is an empty file, and its log is not a log',
    killedAt: 'its own names',
    async validate({ installed }) {
      await once(installed);
      writeFileSync(installed.mirrorPath, '');
      writeFileSync(`${installed.mirrorPath}.wal`, NO_DATABASE);
      return {};
    },
  },
  {
    name: 'compact',
    summary: '`compact`, beside what an earlier one has left',
    killedAt: 'its own names',
    async validate({ installed }) {
      await once(installed);
      for (const suffix of ['', '.wal']) {
        writeFileSync(`${installed.mirrorPath}.compacting${suffix}`, NO_DATABASE);
      }
      // Whoever opens the mirror next clears away what is left.
      return { words: ['compact'], again: () => ({ words: ['once'] }) };
    },
  },
];

/** Its log and the index of that stay as long as somebody reads it. */
function damagedWhileRead(path: string): () => void {
  let reader: Database.Database | null = null;
  onTestFinished(() => void reader?.close());
  return () => {
    reader?.close();
    reader = new Database(path);
    reader.exec('BEGIN; SELECT count(*) FROM desired_states');
    // By another process: whoever closes a file lets go of its locks.
    const { status } = spawnSync('dd', ['if=/dev/zero', `of=${path}`, 'bs=4096', 'count=1', 'conv=notrunc']);
    if (status !== 0) throw new Error('the checkpoint could not be damaged');
  };
}

/** Replaces the checkpoint by one of format 4. */
function toFormat4(path: string): void {
  const database = new Database(path, { readonly: true });
  const kept = ROWS_OF_FORMAT_4.map(([table, sql]) => [table, database.prepare(sql).all()] as const);
  database.close();
  rmSync(path);
  const statements = readFileSync(FORMAT_4, 'utf8').split(/;\n/);
  restore(path, statements.filter((sql) => !/^\s*INSERT/.test(sql)).join(';\n'));
  const older = new Database(path);
  for (const [table, rows] of kept) {
    const names = (older.pragma(`table_info(${table})`) as readonly { name: string }[]).map(
      ({ name }) => name,
    );
    const insert = older.prepare(
      `INSERT INTO ${table} VALUES (${names.map((name) => `@${name}`).join(', ')})`,
    );
    for (const row of rows) insert.run(row);
  }
  older.close();
}
