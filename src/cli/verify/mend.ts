/**
 * Acts on what `verify` found: marks damaged tables to be loaded again, and asks the program that writes the mirror to repair tables
 * and to store checksums anew. Without such a program it is done here, under the instance lock.
 */

import type { Checkpoint } from '../../checkpoint/checkpoint.ts';
import { openCheckpointBeside } from '../../checkpoint/sqlite/open.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { FeedSyncError, InterruptedError } from '../../model/errors.ts';
import { isPinned } from '../../model/write-jobs.ts';
import type {
  RenewChecksumsParameters,
  RepairParameters,
  StoreChecksumParameters,
} from '../../sync/repair.ts';
import { confirm } from '../confirm.ts';
import type { Context } from '../context.ts';
import { performRequest } from '../operator-request.ts';
import { type ContentFinding, describeDifference } from './content-findings.ts';
import type { Finding, Findings } from './findings.ts';

/** The result of mending a finding. */
export type Mending =
  | { readonly kind: 'repaired' | 'checksum-stored' | 'marked' | 'renewed'; readonly text: string }
  | { readonly kind: 'failed'; readonly error: FeedSyncError };

interface MendOptions {
  readonly repairs: boolean;
  /** The operator has agreed already. */
  readonly isYes: boolean;
}

type Different = Extract<ContentFinding, { readonly kind: 'different' }>;

/** Mends the findings. @throws UsageError when the operator does not agree to repairs; nothing was done then. */
export async function mend(
  findings: Findings,
  { repairs, isYes }: MendOptions,
  configuration: Configuration,
  context: Context,
): Promise<Findings> {
  const different = findings.datasets.flatMap(({ content, counted, datasetId }) =>
    content?.kind === 'different' ? { datasetId, content, tableName: counted?.observed.tableName ?? '' } : [],
  );
  if (repairs && different.length > 0) {
    const lines = [
      `This writes the rows of ${plural(different.length, 'table')} that differ from the service's:`,
      ...different.map(
        ({ tableName, content }) => `  ${tableName}: ${describeDifference(content.difference)}`,
      ),
    ];
    const question = different.length === 1 ? 'Repair it?' : `Repair all ${formatCount(different.length)}?`;
    await confirm(isYes, { lines, question }, context);
  }
  const datasets: Finding[] = [];
  for (const one of findings.datasets) {
    const asked = requestFor(one, repairs);
    const mending = asked === null ? null : await mended(one.datasetId, asked, configuration, context);
    datasets.push({ ...one, mending });
  }
  return { ...findings, datasets };
}

/** Marks the damaged tables to be loaded again. Where this user may not write the checkpoint, the findings say what to do. */
export function markDamaged(
  findings: Findings,
  { checkpoint: { path } }: Configuration,
  context: Context,
): Findings {
  const damaged = findings.datasets.filter(isMendedByLoading).map(({ datasetId }) => datasetId);
  if (damaged.length === 0) return findings;
  const marked = request(damaged, { path, uid: context.identity.uid, clock: context.clock });
  const datasets = findings.datasets.map((one): Finding => {
    if (!marked.includes(one.datasetId)) return one;
    const text = `The damaged table of ${one.datasetId} is loaded again by the next catch-up.`;
    return { ...one, mending: { kind: 'marked', text } };
  });
  return { ...findings, datasets };
}

/** A pinned table takes no other content. */
function isMendedByLoading({ counted, content, mending }: Finding): boolean {
  if (mending !== null || counted === null || isPinned(counted.observed)) return false;
  return counted.damage !== null || content?.kind === 'damaged';
}

function request(
  datasetIds: readonly string[],
  place: Parameters<typeof openCheckpointBeside>[0],
): readonly string[] {
  let checkpoint: Checkpoint | null = null;
  try {
    checkpoint = openCheckpointBeside(place);
    return checkpoint?.requestResync(datasetIds) ?? [];
  } catch (error) {
    if (error instanceof FeedSyncError) return [];
    throw error;
  } finally {
    checkpoint?.close();
  }
}

type Asked =
  | { readonly command: 'repair'; readonly parameters: RepairParameters }
  | { readonly command: 'renew-checksums'; readonly parameters: RenewChecksumsParameters }
  | { readonly command: 'store-checksum'; readonly parameters: StoreChecksumParameters };

function requestFor({ content }: Finding, repairs: boolean): Asked | null {
  if (content?.kind === 'different' && repairs) return { command: 'repair', parameters: seenBy(content) };
  if (content?.kind !== 'equal' || content.unrecorded === null) return null;
  const { sum, version } = content.unrecorded;
  const { commitNumber } = content;
  return { command: 'store-checksum', parameters: { commitNumber, sum: String(sum), version } };
}

function seenBy({ commitNumber, snapshotVersion, snapshotDigest }: Different): RepairParameters {
  return { commitNumber, snapshotVersion, snapshotDigest };
}

const DONE = {
  repair: 'repaired',
  'store-checksum': 'checksum-stored',
  'renew-checksums': 'renewed',
} as const;

/** Has the request performed. */
export async function mended(
  datasetId: string,
  asked: Asked,
  configuration: Configuration,
  context: Context,
): Promise<Mending> {
  try {
    const text = await performRequest({ datasetId, ...asked }, configuration, context);
    return { kind: DONE[asked.command], text };
  } catch (error) {
    if (error instanceof InterruptedError || !(error instanceof FeedSyncError)) throw error;
    return { kind: 'failed', error };
  }
}
