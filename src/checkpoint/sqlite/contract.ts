/** The names learned from the service's description of itself: one row. */

import type Database from 'better-sqlite3';
import type { RememberedContract } from '../../model/contract.ts';
import { whole } from './text.ts';

const SELECT = `
  SELECT manifest_path AS manifestPath, newer_than_parameter AS newerThanParameter FROM contract`;

const REPLACE = `
  INSERT INTO contract (singleton, manifest_path, newer_than_parameter)
  VALUES (1, @manifestPath, @newerThanParameter)
  ON CONFLICT DO UPDATE SET
    manifest_path = excluded.manifest_path,
    newer_than_parameter = excluded.newer_than_parameter`;

export interface ContractTable {
  get(): RememberedContract;
  put(contract: RememberedContract): void;
}

export function contractTable(database: Database.Database): ContractTable {
  const select = database.prepare<[], RememberedContract>(SELECT);
  const replace = database.prepare<[RememberedContract]>(REPLACE);
  return {
    get: () => select.get() ?? { manifestPath: null, newerThanParameter: null },
    put({ manifestPath, newerThanParameter }) {
      replace.run({
        manifestPath: manifestPath === null ? null : whole(manifestPath, 'manifestPath'),
        newerThanParameter:
          newerThanParameter === null ? null : whole(newerThanParameter, 'newerThanParameter'),
      });
    },
  };
}
