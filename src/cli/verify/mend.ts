/**
 * Acts on what `verify --deep` found: asks the program that writes the mirror to repair tables and to store checksums anew. Without
 * such a program it is done here, under the instance lock.
 */

import type { Configuration } from '../../configuration/configuration.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { FeedSyncError, InterruptedError } from '../../model/errors.ts';
import type { RepairParameters, StoreChecksumParameters } from '../../sync/repair.ts';
import { confirm } from '../confirm.ts';
import type { Context } from '../context.ts';
import { performRequest } from '../operator-request.ts';
import { type ContentFinding, describeDifference } from './content-findings.ts';
import type { Finding, Findings } from './findings.ts';

/** What became of a finding. */
export type Mending =
  | { readonly kind: 'repaired' | 'checksum-stored'; readonly text: string }
  | { readonly kind: 'failed'; readonly error: FeedSyncError };

interface MendOptions {
  readonly repairs: boolean;
  /** The operator has agreed already. */
  readonly isYes: boolean;
}

type Different = Extract<ContentFinding, { readonly kind: 'different' }>;

/** @throws UsageError when the operator does not agree to repairs; nothing was done then. */
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

type Asked =
  | { readonly command: 'repair'; readonly parameters: RepairParameters }
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

async function mended(
  datasetId: string,
  asked: Asked,
  configuration: Configuration,
  context: Context,
): Promise<Mending> {
  try {
    const text = await performRequest({ datasetId, ...asked }, configuration, context);
    return { kind: asked.command === 'repair' ? 'repaired' : 'checksum-stored', text };
  } catch (error) {
    if (error instanceof InterruptedError || !(error instanceof FeedSyncError)) throw error;
    return { kind: 'failed', error };
  }
}
