/** What was done, a line each, for people. The newest lines up to a limit; nothing is decided by them. */

import type Database from 'better-sqlite3';
import type { JournalEntry } from '../checkpoint.ts';
import { MAX_JOURNAL_LINES } from './limits.ts';
import { cut, cutOrNull } from './text.ts';

const SELECT = 'SELECT at, kind, dataset_id AS datasetId, detail FROM journal ORDER BY line DESC LIMIT ?';

const APPEND = 'INSERT INTO journal (at, kind, dataset_id, detail) VALUES (@at, @kind, @datasetId, @detail)';

const DROP_OLDEST = 'DELETE FROM journal WHERE line <= (SELECT max(line) FROM journal) - ?';

type Row = Omit<JournalEntry, 'at'> & { readonly at: string };

export interface JournalTable {
  newest(limit: number): readonly JournalEntry[];
  /** Two statements: part of a transaction of the caller's. */
  append(entry: JournalEntry): void;
}

export function journalTable(database: Database.Database): JournalTable {
  const select = database.prepare<[number], Row>(SELECT);
  const append = database.prepare<[Row]>(APPEND);
  const dropOldest = database.prepare<[number]>(DROP_OLDEST);
  return {
    newest: (limit) => select.all(limit).map((row) => ({ ...row, at: new Date(row.at) })),
    append({ at, kind, datasetId, detail }) {
      append.run({
        at: at.toISOString(),
        kind: cut(kind),
        datasetId: cutOrNull(datasetId),
        detail: cut(detail),
      });
      dropOldest.run(MAX_JOURNAL_LINES);
    },
  };
}
