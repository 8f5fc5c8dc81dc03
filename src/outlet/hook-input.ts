/** What the command after commits gets on its standard input: an interface, documented in src/cli/outputs.md. Pure. */

import type { HistoryLine } from '../model/history.ts';

export interface HookInput {
  /** The path of the mirror. */
  readonly mirror: string;
  /** The path of the published copy, which has these commits; null: none is published. */
  readonly publishedCopy: string | null;
  /** In the order in which they were done. */
  readonly commits: readonly HookCommit[];
  /** There are further commits, of which it is told at once after these. */
  readonly hasMore: boolean;
}

export interface HookCommit {
  readonly line: number;
  readonly dataset: string;
  readonly table: string;
  readonly kind: HistoryLine['kind'];
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly added: number | null;
  readonly changed: number | null;
  readonly removed: number | null;
  readonly rows: number | null;
  readonly appliedAt: string;
}

export function hookCommit(line: HistoryLine): HookCommit {
  const { datasetId: dataset, tableName: table, kind, fromVersion, toVersion, net, rowCount: rows } = line;
  return {
    line: line.line,
    dataset,
    table,
    kind,
    fromVersion,
    toVersion,
    added: net?.added ?? null,
    changed: net?.changed ?? null,
    removed: net?.removed ?? null,
    rows,
    appliedAt: line.appliedAt.toISOString(),
  };
}
