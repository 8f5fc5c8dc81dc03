/**
 * Judges a commit inside its transaction, once its counts are known, and reads what an operator is shown of a commit that waits. The
 * statements are those of the destination.
 */

import {
  type Gate,
  hasLimits,
  type JudgedCommit,
  judge,
  type KeyTexts,
  type RowCounts,
  type ShownKeys,
} from '../model/gate.ts';
import type { Row } from '../staging/engine/engine.ts';
import { textAt } from '../staging/engine/sql.ts';

/** The commit waits: its transaction must be rolled back. */
export interface Awaiting {
  readonly kind: 'awaiting';
  readonly judged: JudgedCommit;
}

/** The judgement of a commit. `approved`: the commit exceeds its gate, and an operator has approved it. Null: it does not exceed it. */
export type Judgement = Awaiting | { readonly kind: 'approved' } | null;

interface Judging {
  /** Undefined: the job is not judged. */
  readonly gate: Gate | undefined;
  readonly counts: RowCounts;
  /** Identifies the content. */
  readonly digest: () => Promise<string> | string;
  readonly keys: () => Promise<ShownKeys>;
}

/** Judges a commit by its gate. An approval holds for exactly the approved content. */
export async function judgeCommit({ gate, counts, digest, keys }: Judging): Promise<Judgement> {
  if (gate === undefined || judge(counts, gate.limits).kind !== 'awaiting') return null;
  const found = await digest();
  if (found === gate.approvedDigest) return { kind: 'approved' };
  return { kind: 'awaiting', judged: { digest: found, counts, keys: await keys() } };
}

/** Returns whether a commit of the job can wait: then the rows that it touches are read. */
export function mayWait(gate: Gate | undefined): boolean {
  return gate !== undefined && hasLimits(gate.limits);
}

/** The most characters of a key's column that an operator is shown. */
export const MAX_KEY_CHARACTERS = 80;

/** Statements of which each selects the columns of some keys as texts, of at most `MAX_KEY_CHARACTERS`; null: there are none. */
export type KeyStatements = Readonly<Record<keyof ShownKeys, string | null>>;

/** Reads some keys of each kind. `read` runs a statement in the transaction of the commit, and resolves to its rows. */
export async function readShownKeys(
  read: (statement: string) => Promise<readonly Row[]>,
  statements: KeyStatements,
): Promise<ShownKeys> {
  const keysOf = async (statement: string | null): Promise<readonly KeyTexts[]> => {
    const rows = statement === null ? [] : await read(statement);
    return rows.map((row) => row.map((_, index) => textAt(row, index)));
  };
  return {
    added: await keysOf(statements.added),
    changed: await keysOf(statements.changed),
    removed: await keysOf(statements.removed),
  };
}
