/** The candidates: content that waits for approval, at most one for each dataset. */

import type Database from 'better-sqlite3';
import type { Candidate } from '../../model/candidate.ts';
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
    all: (): readonly Candidate[] => select().flatMap(candidateFrom),
    put: (candidate: Candidate) =>
      put({ datasetId: candidate.datasetId, content: JSON.stringify({ candidate }, withTypes) }),
    /** Returns true where there was one. */
    remove: (datasetId: string) => remove.run(datasetId).changes > 0,
  };
}

/** A candidate that another version of the program wrote may be unreadable. Its content is then fetched and judged again. */
function candidateFrom({ content }: CandidateRow): readonly Candidate[] {
  try {
    const { candidate } = JSON.parse(content, fromTypes) as { readonly candidate: Candidate };
    return [candidate];
  } catch {
    return [];
  }
}

/** JSON has neither times nor maps nor numbers of 64 bits. A time is a text before a replacer sees it, but not in its object. */
function withTypes(this: unknown, key: string, value: unknown): unknown {
  const original = (this as Record<string, unknown>)[key];
  if (original instanceof Date) return { $time: original.toISOString() };
  if (original instanceof Map) return { $map: [...original] };
  if (typeof original === 'bigint') return { $integer: String(original) };
  return value;
}

function fromTypes(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if ('$time' in value) return new Date(String(value.$time));
  if ('$map' in value) return new Map(value.$map as readonly [unknown, unknown][]);
  return '$integer' in value ? BigInt(String(value.$integer)) : value;
}
