/**
 * A unit of work on its way into the destination: examined, handed to the writer, and told as what it changed. The
 * three kinds of work (load-snapshot.ts, apply-changes.ts, retire.ts) end here.
 */

import type { LimitFunction } from 'p-limit';
import type { HeldDataset, Unit } from '../../destination/destination.ts';
import { unreachable } from '../../lib/assert.ts';
import type { Version } from '../../model/version.ts';
import type { Parts } from '../parts.ts';
import type { Commit } from '../result.ts';
import type { Staging } from './staging.ts';
import type { Writer } from './writer.ts';

export interface Tools {
  readonly parts: Parts;
  readonly staging: Staging;
  readonly writer: Writer;
  /** Lets only so many versions of changes be fetched at once, over all datasets. */
  readonly fetching: LimitFunction;
  readonly signal: AbortSignal;
}

/** How work ended, where it did not fail. */
export type WorkOutcome =
  | { readonly kind: 'committed'; readonly commit: Commit; readonly held: HeldDataset }
  | { readonly kind: 'retired'; readonly table: string | null }
  /** What it was planned from is no more: the table, or what the manifest names. */
  | { readonly kind: 'overtaken' }
  /** Changes of these versions cannot be used, and why: nothing was applied. */
  | { readonly kind: 'unusable'; readonly versions: ReadonlyMap<number, string> }
  /** The changes of this version alone have more bytes than may be staged: nothing was applied. */
  | { readonly kind: 'oversized'; readonly record: Version };

/** What is told of a commit beside what the destination says. */
export type Effort = Pick<Commit, 'versions' | 'bytes'> & { readonly startedMs: number };

/** @throws what `prepare` throws, and what the unit failed with. */
export async function commitUnit(unit: Unit, effort: Effort, tools: Tools): Promise<WorkOutcome> {
  const { parts, writer } = tools;
  parts.progress.arrived(unit.datasetId);
  const outcome = await writer.commit(await parts.destination.prepare(unit));
  switch (outcome.kind) {
    case 'committed': {
      const { held, ...committed } = outcome.committed;
      const { versions, bytes, startedMs } = effort;
      const durationMs = parts.clock.monotonicMs() - startedMs;
      const kind = unit.kind === 'snapshot' ? 'snapshot' : 'changes';
      return { kind: 'committed', commit: { kind, ...committed, versions, bytes, durationMs }, held };
    }
    case 'retired':
      return { kind: 'retired', table: outcome.table };
    case 'overtaken':
      return { kind: 'overtaken' };
    case 'failed':
      throw outcome.error;
    default:
      return unreachable(outcome);
  }
}
