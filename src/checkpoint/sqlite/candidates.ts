/** The candidates: content that waits for approval, at most one for each dataset. */

import type Database from 'better-sqlite3';
import type { Candidate } from '../../model/candidate.ts';
import { candidateFromText, candidateText } from '../../model/candidate-text.ts';
import { type Column, exactText, id, table } from './table.ts';

interface CandidateRow {
  readonly datasetId: string;
  readonly content: string;
}

export function candidatesTable(database: Database.Database) {
  const candidates = table<CandidateRow>(database, 'candidates', {
    datasetId: id,
    content: exactText as Column<string>,
  });
  const select = candidates.select('ORDER BY dataset_id');
  const put = candidates.putAll();
  const remove = database.prepare<[string]>('DELETE FROM candidates WHERE dataset_id = ?');
  return {
    all: (): readonly Candidate[] => select().flatMap(({ content }) => candidateFromText(content) ?? []),
    put: (candidate: Candidate) => put({ datasetId: candidate.datasetId, content: candidateText(candidate) }),
    /** Returns true where there was one. */
    remove: (datasetId: string) => remove.run(datasetId).changes > 0,
  };
}
