/**
 * Closes the difference between what is wanted of one dataset and what the destination has: plan, carry out, plan
 * again where the world moved meanwhile. Its trouble is its own: it is recorded, told, and holds up no other.
 */

import { present, unreachable } from '../lib/assert.ts';
import { DataError } from '../model/errors.ts';
import { failureOf } from './failures.ts';
import { type Load, type LoadOutcome, loadSnapshot } from './load-snapshot.ts';
import { newestVersionPast } from './look.ts';
import type { Offers } from './offers.ts';
import type { Parts } from './parts.ts';
import { contentOf, type Plan, plan, wantAtLeast } from './plan.ts';
import type { DatasetResult } from './result.ts';
import type { Staging } from './staging.ts';
import type { Known } from './state.ts';
import type { Writer } from './writer.ts';

/** How often a dataset is planned anew because its content changed while it was downloaded or committed. */
const MAX_PLANS = 4;

export interface Reconciliation {
  readonly parts: Parts;
  readonly staging: Staging;
  readonly writer: Writer;
  readonly signal: AbortSignal;
  /** Of every subscription whose manifest was read. */
  readonly offers: readonly Offers[];
}

/** Throws what is not the dataset's own trouble too; the caller sorts it. */
export async function reconcile(known: Known, run: Reconciliation): Promise<DatasetResult> {
  let current = known;
  for (let plans = 0; plans < MAX_PLANS; plans++) {
    const decided = decide(current, run);
    if (decided.kind === 'look') {
      current = await look(current, run);
      continue;
    }
    if (decided.kind !== 'load') return await settleWithoutWork(current, decided, run);
    const result = await load(current, decided, run);
    if (result !== null) return result;
    current = await knowAgain(current, run);
  }
  throw new DataError(
    `Dataset ${known.want.datasetId} changes faster than it downloads: ${MAX_PLANS} attempts were overtaken.`,
    {
      hint: 'It is tried again at the next catch-up. A faster connection to the service helps.',
    },
  );
}

function decide(known: Known, { parts, offers }: Reconciliation): Plan {
  const { datasetId, members } = known.want;
  const offered = offers
    .filter(({ subscriptionId }) => members.has(subscriptionId))
    .flatMap((manifest) => manifest.of(datasetId) ?? []);
  return plan({ ...known, offers: offered, now: parts.clock.now() });
}

async function settleWithoutWork(
  { want: { datasetId }, failure }: Known,
  decided: Exclude<Plan, { kind: 'load' | 'look' }>,
  { parts, staging }: Reconciliation,
): Promise<DatasetResult> {
  switch (decided.kind) {
    case 'keep':
      if (failure !== null) parts.checkpoint.clearFailure(datasetId);
      // A process that was ended just after its commit has left the files of it.
      await staging.discard(datasetId);
      return { kind: 'current', datasetId };
    case 'leave':
      return { kind: 'current', datasetId };
    case 'wait':
      return { kind: 'waiting', datasetId, why: WAITING_FOR[decided.why] };
    case 'report-hold':
      return { kind: 'held', datasetId, hold: decided.hold };
    case 'report-failure': {
      const { message, hint } = present(failure, 'what failed before has a failure');
      const error = new DataError(message, hint === null ? {} : { hint });
      return { kind: 'failed', datasetId, error, failure };
    }
    default:
      return unreachable(decided);
  }
}

const WAITING_FOR: Readonly<Record<(Plan & { kind: 'wait' })['why'], string>> = {
  'not-offered': 'no manifest that was read lists it',
  'offer-lags': 'the manifest is older than what the service has announced',
};

/** Null: plan again. */
async function load(
  known: Known,
  decided: Plan & { kind: 'load' },
  run: Reconciliation,
): Promise<DatasetResult | null> {
  const { parts, staging, writer, signal } = run;
  const startedMs = parts.clock.monotonicMs();
  const offers = present(
    run.offers.find(({ subscriptionId }) => subscriptionId === decided.offer.subscriptionId),
    'an offer comes from a manifest that was read',
  );
  const work: Load = { known, offer: decided.offer, offers, reloads: decided.reloads };
  try {
    const loaded = await loadSnapshot(work, parts, staging, writer, signal);
    if (loaded.kind === 'superseded') return null;
    return await settle(known, loaded, parts.clock.monotonicMs() - startedMs, run);
  } catch (error) {
    if (error instanceof DataError) return await fail(known, error, contentOf(decided.offer.entry), run);
    throw error;
  }
}

async function settle(
  known: Known,
  { outcome, bytes, atHead }: LoadOutcome & { kind: 'settled' },
  durationMs: number,
  { parts, staging }: Reconciliation,
): Promise<DatasetResult | null> {
  const { datasetId } = outcome;
  switch (outcome.kind) {
    case 'overtaken':
      return null;
    case 'failed':
      throw outcome.error;
    case 'committed': {
      const { tableName, fromVersion, toVersion, rowCount } = outcome.committed;
      parts.checkpoint.clearFailure(datasetId);
      parts.checkpoint.journal({
        at: parts.clock.now(),
        kind: 'loaded',
        datasetId,
        detail: `version ${toVersion}, ${rowCount} rows`,
      });
      if (atHead) parts.checkpoint.markLooked(datasetId, known.want.looksAsked);
      await staging.discard(datasetId);
      return {
        kind: 'loaded',
        datasetId,
        tableName,
        fromVersion,
        version: toVersion,
        rowCount,
        bytes,
        durationMs,
      };
    }
    default:
      return unreachable(outcome);
  }
}

/** Bad content is of no use to a later attempt, so what was staged of it goes. */
async function fail(
  known: Known,
  error: DataError,
  content: string,
  { parts, staging }: Reconciliation,
): Promise<DatasetResult> {
  const { datasetId } = known.want;
  const failure = failureOf(datasetId, error, content, known.failure, parts.clock.now());
  parts.checkpoint.fail(failure);
  await staging.discard(datasetId);
  return { kind: 'failed', datasetId, error, failure };
}

async function look(known: Known, { parts, signal }: Reconciliation): Promise<Known> {
  const { want } = known;
  const held = present(known.held, 'a look is owed to a table');
  const newest = await newestVersionPast(parts.feed, want.datasetId, held, signal);
  if (newest !== null) return { ...known, want: wantAtLeast(want, newest) };
  parts.checkpoint.markLooked(want.datasetId, want.looksAsked);
  return { ...known, want: { ...want, looksDone: want.looksAsked } };
}

async function knowAgain(known: Known, { parts }: Reconciliation): Promise<Known> {
  const { datasets } = await parts.destination.has();
  return { ...known, held: datasets.get(known.want.datasetId) ?? null };
}
