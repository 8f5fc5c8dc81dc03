/**
 * The rules of every history, at every commit and after every catch-up:
 *
 * 1. A table never has rows that were never published, nor older rows in place of newer ones while the list of versions names
 *    the table's version; it is never retired while some subscription contained the dataset at every moment.
 *    A rollback may; then the table is pinned, and takes no rows but by another one. Beside a limit that every commit exceeds, a
 *    table takes what the operator approved, and nothing else.
 *    A repair brings content that was published under the version of the table, and verify never calls different what is the newest.
 * 2. What a catch-up calls up to date is no older than the changes that a log announced before it began.
 */

import { isPinned, type WriteJob } from '../../src/model/write-jobs.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import type { Operator } from './client.ts';
import { contentDigest, type Table } from './model-mirror.ts';
import { DATASET, type Service } from './service.ts';

export class Wrong extends Error {}

/** @throws Wrong. `tableSinceMs`: when the table was made. */
export function judgeCommit(
  { service, operator }: { readonly service: Service; readonly operator: Operator },
  startedMs: number,
  tableSinceMs: number,
  job: WriteJob,
  before: Table | null,
  after: Table | null,
): void {
  if (after === null) {
    const wasContained = service.isContained && service.uncontainedMs < Math.min(tableSinceMs, startedMs);
    if (wasContained) throw new Wrong('it is retired, though a subscription contained it at every moment');
    return;
  }
  if (before !== null) judgeOperator(operator, job, before, after);
  const { content } = after;
  const orderOf = (text: string): number => service.past.findIndex((past) => past.content === text);
  if (orderOf(content) < 0) throw new Wrong(`${job.kind} makes ${content}, which was never published`);
  if (job.kind === 'repair') judgeRepair(service, after);
  if (before === null || job.kind === 'rollback' || orderOf(content) >= orderOf(before.content)) return;
  const { version, publishedAt } = before.observed;
  const isNamed = service.versions.some(
    (one) => one.version === version && one.publishedMs === publishedAt?.getTime(),
  );
  const wasNamed = isNamed && service.listChangedMs < startedMs;
  if (wasNamed)
    throw new Wrong(`${job.kind} puts ${content} in place of ${before.content}, which is newer and listed`);
}

function judgeRepair(service: Service, { content, observed: { version } }: Table): void {
  const isOfVersion = service.past.some((past) => past.content === content && past.version === version);
  if (!isOfVersion)
    throw new Wrong(`repair makes ${content}, which was never published as version ${version}`);
}

/** @throws Wrong where the table was found to differ from the content of the service, and has the newest. */
export function judgeDifference({ newest }: Service, { content, observed, isAltered }: Table): void {
  if (!isAltered && content === newest.content && observed.version === newest.version)
    throw new Wrong(`${content} is called different, and is the newest`);
}

function judgeOperator({ isGated, approved }: Operator, job: WriteJob, before: Table, after: Table): void {
  if (job.kind === 'rollback' || after.content === before.content) return;
  const does = `${job.kind} puts ${after.content} in place of ${before.content}`;
  if (isPinned(before.observed)) throw new Wrong(`${does}, which is pinned`);
  const isJudged = isGated && !before.isDamaged && (job.kind === 'snapshot' || job.kind === 'changes');
  if (isJudged && !approved.has(contentDigest(job))) throw new Wrong(`${does}, and nobody has approved it`);
}

/** Whether the catch-up says of all it knows that it is up to date. */
export function isClaimed(result: CatchUpResult, absences: number): boolean {
  return (
    result.incidents.length === 0 &&
    absences === 0 &&
    result.datasets.every(
      (one) =>
        one.kind === 'retired' ||
        ((one.kind === 'current' || one.kind === 'updated') && one.recheckAt === null),
    )
  );
}

/** @throws Wrong where the catch-up that began at `startedMs` calls up to date what is not. */
export function judgeResult(
  service: Service,
  startedMs: number,
  result: CatchUpResult,
  absences: number,
  table: Table | null,
): void {
  // What expires while it is read is noticed by the next catch-up.
  if (!isClaimed(result, absences) || service.expiredMs >= startedMs) return;
  const { addedMs } = service;
  if (table === null) {
    if (addedMs !== null && addedMs <= startedMs && !service.hasLacked)
      throw new Wrong('it has no table, and is called up to date');
    return;
  }
  if (!result.datasets.some(({ datasetId }) => datasetId === DATASET) || !service.isContained) return;
  const reported = service.reported
    .filter((one) => one.atMs <= startedMs && service.isStillAnnounced(one))
    .at(-1);
  if (reported === undefined) return;
  const newest = service.past.findLastIndex(({ sinceMs }) => sinceMs <= reported.atMs);
  if (service.past.slice(newest).some(({ content }) => content === table.content)) return;
  const due = service.past[newest]?.content;
  throw new Wrong(
    `${table.content} is called up to date, and ${due} was announced before the catch-up began`,
  );
}

/** Null where everything is as it should be now that the service is calm. */
export function whatIsLeft(
  service: Service,
  result: CatchUpResult,
  absences: number,
  table: Table | null,
): string | null {
  const [dataset] = result.datasets;
  const ending = dataset === undefined ? 'nothing' : textOf(dataset);
  const errors = result.incidents.map(({ error }) => `${error.message}`).join(' ');
  if (errors !== '') return `incident: ${errors}`;
  if (result.suspensions.length > 0) return `suspended: ${result.suspensions[0]?.refusal.message}`;
  if (!service.isContained) return table === null ? null : `${table.content} is not retired: ${ending}`;
  const { version, content } = service.newest;
  if (table === null) return `there is no table of ${content}: ${ending}`;
  if (table.content !== content || table.observed.version !== version) {
    return `it has ${table.content} v${table.observed.version}, not ${content} v${version}: ${ending}`;
  }
  if (table.isAltered) return 'a row that was altered by hand is there still';
  return isClaimed(result, absences) ? null : `it is not called up to date: ${ending}, ${absences} absences`;
}

function textOf(dataset: CatchUpResult['datasets'][number]): string {
  if (dataset.kind === 'waiting') return `waiting: ${dataset.why}`;
  return dataset.kind === 'failed' ? `failed: ${dataset.error.message}` : dataset.kind;
}
