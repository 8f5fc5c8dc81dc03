/** What is absent without an event that says so, and since when. */

import type Database from 'better-sqlite3';
import { type Absence, type AbsenceSubject, absenceKey } from '../../model/absence.ts';

const SELECT = `
  SELECT kind, subscription_id AS subscriptionId, dataset_id AS datasetId, version, since FROM absences`;

const REPLACE = `
  INSERT INTO absences (subject, kind, subscription_id, dataset_id, version, since)
  VALUES (@subject, @kind, @subscriptionId, @datasetId, @version, @since)
  ON CONFLICT DO UPDATE SET since = excluded.since`;

const DELETE = 'DELETE FROM absences WHERE subject = ?';
const DELETE_OF_SUBSCRIPTION = 'DELETE FROM absences WHERE subscription_id = ?';
const DELETE_OF_TABLE = "DELETE FROM absences WHERE dataset_id = ? AND kind IN ('version', 'table')";

interface Row {
  readonly kind: AbsenceSubject['kind'];
  readonly subscriptionId: string | null;
  readonly datasetId: string | null;
  readonly version: number | null;
  readonly since: string;
}

export interface AbsencesTable {
  all(): readonly Absence[];
  put(absence: Absence): void;
  remove(subject: AbsenceSubject): void;
  /** What was noted of the subscription and of what it contained. */
  removeOfSubscription(subscriptionId: string): void;
  /** What was noted of the table and of its versions. */
  removeOfTable(datasetId: string): void;
}

export function absencesTable(database: Database.Database): AbsencesTable {
  const select = database.prepare<[], Row>(SELECT);
  const replace = database.prepare<[Row & { subject: string }]>(REPLACE);
  const remove = database.prepare<[string]>(DELETE);
  const removeOfSubscription = database.prepare<[string]>(DELETE_OF_SUBSCRIPTION);
  const removeOfTable = database.prepare<[string]>(DELETE_OF_TABLE);
  return {
    all: () => select.all().map((row) => ({ subject: subjectOf(row), since: new Date(row.since) })),
    put({ subject, since }) {
      replace.run({ ...EMPTY, ...subject, subject: absenceKey(subject), since: since.toISOString() });
    },
    remove(subject) {
      remove.run(absenceKey(subject));
    },
    removeOfSubscription(subscriptionId) {
      removeOfSubscription.run(subscriptionId);
    },
    removeOfTable(datasetId) {
      removeOfTable.run(datasetId);
    },
  };
}

const EMPTY: Pick<Row, 'subscriptionId' | 'datasetId' | 'version'> = {
  subscriptionId: null,
  datasetId: null,
  version: null,
};

function subjectOf({ kind, subscriptionId, datasetId, version }: Row): AbsenceSubject {
  const ofSubscription = subscriptionId ?? '';
  const ofDataset = datasetId ?? '';
  switch (kind) {
    case 'member':
      return { kind, subscriptionId: ofSubscription, datasetId: ofDataset };
    case 'subscription':
    case 'log':
      return { kind, subscriptionId: ofSubscription };
    case 'version':
      return { kind, datasetId: ofDataset, version: version ?? 0 };
    case 'table':
      return { kind, datasetId: ofDataset };
  }
}
