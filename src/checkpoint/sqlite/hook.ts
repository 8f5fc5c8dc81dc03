/** The command that is run after commits: what it was told of, and how its last run failed. At most one row. */

import type Database from 'better-sqlite3';
import type { HistoryPosition } from '../../model/history.ts';
import type { HookRecord } from '../checkpoint.ts';
import { cut, whole } from './text.ts';

const SELECT = `
  SELECT told_lines AS lines, told_last AS last, told_at AS toldAt, attempts, failed_at AS failedAt, message FROM hook`;

const TOLD = `
  INSERT INTO hook (singleton, told_lines, told_last, told_at, attempts) VALUES (1, @lines, @last, @at, 0)
  ON CONFLICT DO UPDATE SET told_lines = excluded.told_lines, told_last = excluded.told_last,
    told_at = excluded.told_at, attempts = 0, failed_at = NULL, message = NULL`;

const FAILED = `
  INSERT INTO hook (singleton, told_lines, told_last, attempts, failed_at, message) VALUES (1, 0, '', 1, @at, @message)
  ON CONFLICT DO UPDATE SET attempts = attempts + 1, failed_at = excluded.failed_at, message = excluded.message`;

interface Row {
  readonly lines: number;
  readonly last: string;
  readonly toldAt: string | null;
  readonly attempts: number;
  readonly failedAt: string | null;
  readonly message: string | null;
}

export interface HookTable {
  get(): HookRecord;
  told(position: HistoryPosition, at: Date): void;
  failed(message: string, at: Date): void;
}

export function hookTable(database: Database.Database): HookTable {
  const select = database.prepare<[], Row>(SELECT);
  const told = database.prepare<[HistoryPosition & { readonly at: string }]>(TOLD);
  const failed = database.prepare<[{ readonly message: string; readonly at: string }]>(FAILED);
  return {
    get: () => fromRow(select.get()),
    told({ lines, last }, at) {
      told.run({ lines, last: whole(last, 'last'), at: at.toISOString() });
    },
    failed(message, at) {
      failed.run({ message: cut(message), at: at.toISOString() });
    },
  };
}

function fromRow(row: Row | undefined): HookRecord {
  if (row === undefined) return { told: null, toldAt: null, failure: null };
  const { lines, last, toldAt, attempts, failedAt, message } = row;
  const hasFailed = failedAt !== null && message !== null;
  return {
    told: toldAt === null ? null : { lines, last },
    toldAt: toldAt === null ? null : new Date(toldAt),
    failure: hasFailed ? { message, attempts, failedAt: new Date(failedAt) } : null,
  };
}
