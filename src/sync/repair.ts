/**
 * The handlers of what `verify` requests: to repair a table, and to store checksums. Invariant: they act on the commit and the content
 * that the command saw, or not at all.
 */

import { z } from 'zod';
import type { OperatorRequest, RequestAnswer } from '../checkpoint/requests.ts';
import { formatCount } from '../lib/units.ts';
import type { CommitResult } from '../model/commits.ts';
import { ALTERED } from '../model/lost-past.ts';
import type { ObservedTable } from '../model/write-jobs.ts';
import { fetchContent, findContent } from './execute/fetch-content.ts';
import { noteRepair } from './execute/sync-runs.ts';
import { KeptManifests } from './manifest-cache.ts';
import { noteLostPast } from './occurrences.ts';
import type { Performing } from './request-handler.ts';

const REPAIR = z.object({
  commitNumber: z.number().nullable(),
  snapshotVersion: z.number(),
  snapshotDigest: z.string(),
});

/** The state on which a repair was decided. */
export type RepairParameters = z.infer<typeof REPAIR>;

const STORE_CHECKSUM = z.object({
  commitNumber: z.number().nullable(),
  sum: z.string().regex(/^-?\d+$/),
  version: z.string(),
});

/** The checksum to store. `sum` is a decimal number, because it may have more than 53 bits. */
export type StoreChecksumParameters = z.infer<typeof STORE_CHECKSUM>;

export async function performRepair(
  { datasetId, parameters }: OperatorRequest,
  performing: Performing,
): Promise<RequestAnswer> {
  const { parts, commit, known, tools } = performing;
  const seen = REPAIR.parse(parameters);
  const table = known?.observed ?? null;
  if (known === null || table === null || table.commitNumber !== seen.commitNumber) return changed(datasetId);
  if (table.pinnedSince !== null) return pinned(table);
  await parts.feed.discover(tools.signal);
  const source = new KeptManifests(parts).sourceSince(parts.clock.monotonicMs(), () => true);
  try {
    const found = await findContent(table, known.desired, source, tools);
    if (found.kind !== 'content') return changed(datasetId);
    const content = await fetchContent(table, found, source, tools);
    if (typeof content === 'string') return changed(datasetId);
    const { version: snapshotVersion, digest, fetched } = content.snapshot;
    if (snapshotVersion !== seen.snapshotVersion || digest !== seen.snapshotDigest) return changed(datasetId);
    const { version } = table;
    const result = await commit({ kind: 'repair', datasetId, version, content, fetched, plannedFrom: table });
    if (result.kind === 'failed') throw result.error;
    if (result.kind !== 'committed') return changed(datasetId);
    noteRepair(datasetId, result.committed, parts);
    noteLostPast(result.committed, parts);
    return { kind: 'done', text: repaired(table, result.committed) };
  } finally {
    await tools.staging.discard(datasetId);
  }
}

function repaired({ datasetId, tableName }: ObservedTable, { net, lostPast }: CommitResult): string {
  const counts = [
    `${formatCount(net?.added ?? 0)} added`,
    ...(net?.changed == null ? [] : [`${formatCount(net.changed)} changed`]),
    `${formatCount(net?.removed ?? 0)} removed`,
  ];
  const done = `Repaired the table ${tableName} of ${datasetId}: ${counts.join(', ')}.`;
  return lostPast === undefined ? done : `${done} Its earlier states are not known any more: ${lostPast}.`;
}

export async function performStoreChecksum(
  { datasetId, parameters }: OperatorRequest,
  { parts }: Performing,
): Promise<RequestAnswer> {
  const { commitNumber, sum, version } = STORE_CHECKSUM.parse(parameters);
  const checksum = { datasetId, commitNumber, sum: BigInt(sum), version };
  const stored = await parts.destination.storeChecksum(checksum);
  if (stored === 'stale') return changed(datasetId);
  const done = `Stored the checksum of ${datasetId} anew.`;
  if (stored === 'stored') return { kind: 'done', text: done };
  return { kind: 'done', text: `${done} Its earlier states are not known any more: ${ALTERED}.` };
}

const RENEW_CHECKSUMS = z.object({ datasetIds: z.array(z.string()), unreadable: z.array(z.string()) });

export type RenewChecksumsParameters = z.infer<typeof RENEW_CHECKSUMS>;

/** Renews the checksums of all datasets in the parameters, whichever dataset the request names. */
export async function performRenewChecksums(
  { parameters }: OperatorRequest,
  { parts }: Performing,
): Promise<RequestAnswer> {
  const { stored, closed, kept } = await parts.destination.renewChecksums(RENEW_CHECKSUMS.parse(parameters));
  const sentences = [
    ...(stored.length === 0
      ? []
      : [`Stored checksums that were missing, or of another version of the hash: ${stored.join(', ')}.`]),
    ...(closed.length === 0
      ? []
      : [
          `Closed undo logs that were altered outside feed-sync: ${closed.join(', ')}. Earlier states are not known.`,
        ]),
    ...(kept.length === 0 ? [] : [`Kept what cannot be read under another name: ${kept.join(', ')}.`]),
  ];
  return { kind: 'done', text: sentences.join(' ') || 'Nothing was to be stored.' };
}

function changed(datasetId: string): RequestAnswer {
  return {
    kind: 'refused',
    error: 'table_changed',
    message: `The table of ${datasetId}, or the service's content for it, is another by now. Nothing was done.`,
    hint: 'Compare it again: feed-sync verify --deep',
  };
}

function pinned({ datasetId }: ObservedTable): RequestAnswer {
  return {
    kind: 'refused',
    error: 'usage_invalid',
    message: `The table of ${datasetId} is pinned to an earlier state. Nothing was done.`,
    hint: 'See feed-sync resume --help.',
  };
}
