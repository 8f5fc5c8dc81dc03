/**
 * Checks both stores and the locks on them. The mirror is opened read-only for a short time after a short wait; the
 * checkpoint is examined in memory.
 */

import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Failure, HookRecord, Suspension } from '../../checkpoint/checkpoint.ts';
import { type InstanceHolder, instanceLockPath, readInstanceLock } from '../../checkpoint/instance-lock.ts';
import { CURRENT_FORMAT } from '../../checkpoint/sqlite/format.ts';
import { type InspectedCheckpoint, inspectCheckpoint } from '../../checkpoint/sqlite/open.ts';
import { tryListening } from '../../daemon/server/listen.ts';
import { formatLeftOut, type RecordedUnion } from '../../destination/catalog/unions.ts';
import type { ObservedState } from '../../destination/destination.ts';
import { fileInTheWay } from '../../lib/files.ts';
import { MAX_QUARANTINED } from '../../lib/quarantine.ts';
import { causeIn, shellWord } from '../../lib/text.ts';
import { formatBytes, plural } from '../../lib/units.ts';
import { ERRORS } from '../../model/error-codes.ts';
import { BusyError } from '../../model/errors.ts';
import type { ScrubRecord } from '../../model/scrub.ts';
import {
  type CheckpointContent,
  contentOf,
  type FileLock,
  isWorthCompacting,
  type MirrorSize,
  mirrorBytes,
  mirrorLocks,
  readMirror,
} from '../../reporting/stores.ts';
import { detailsOf } from '../../sync/candidates.ts';
import { OLD_POSITION_MS } from '../../sync/follow/subscriptions.ts';
import { waysOutOf } from '../../sync/incidents.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { formatScope, formatTime, formatTimeFrom, statusAndCode, theSameFor } from '../render/messages.ts';
import {
  type Facts,
  type Finding,
  findingOf,
  notKnown,
  ok,
  problem,
  skipped,
  suspensionsOf,
  warning,
} from './check.ts';
import { judgeHistory, judgeTables } from './content.ts';
import { checkDatabase } from './database.ts';
import { seeFile } from './disk.ts';

const DAY_MS = 86_400_000;
/** After so many days the service drops events (the interface, Limits). */
const EVENTS_KEPT_DAYS = 90;

export async function checkCheckpoint(facts: Facts): Promise<readonly Finding[]> {
  const { inspection, context } = facts;
  const path = inspection.known('checkpoint.path');
  if (path === null) return [notKnown('file', 'checkpoint.path')];
  const quarantined = await quarantineFindings('checkpoint', path);
  let inspected: InspectedCheckpoint;
  try {
    inspected = inspectCheckpoint({ path, uid: context.identity.uid });
  } catch (error) {
    return [findingOf('file', error), ...quarantined];
  }
  const file = judgeFile(path, inspected);
  if (inspected.kind !== 'sound') return [file, ...quarantined];
  try {
    const content = contentOf(inspected.content);
    facts.checkpoint = content;
    const suspensions = suspensionsOf(content, inspection.configuration).all;
    const now = context.clock.now();
    const scrubEveryMs = inspection.known('scrub.every');
    const scrub = scrubEveryMs === null ? [] : judgeScrub(content.scrub, scrubEveryMs, now);
    const hook = inspection.known('hooks.afterCommit') === null ? [] : judgeHook(content.hook, now);
    return [file, ...judgeContent({ ...content, suspensions }, now), ...hook, ...scrub, ...quarantined];
  } finally {
    inspected.content.close();
  }
}

/** Returns the finding about the file itself. Pure. */
function judgeFile(path: string, inspected: InspectedCheckpoint): Finding {
  const about = 'file';
  switch (inspected.kind) {
    case 'none':
      return ok(about, `none yet at ${path}: feed-sync once makes it`);
    case 'damaged':
      return problem(
        about,
        `${path} is damaged: ${inspected.finding}.`,
        EXIT_CODES.storageFault,
        'Nothing is lost. To have it quarantined and built anew: feed-sync once',
      );
    case 'unreadable':
      return problem(
        about,
        `${path} cannot be opened read-only: ${inspected.reason}.`,
        EXIT_CODES.storageFault,
        'It can be read while feed-sync run is running, and after feed-sync once by its user has recovered it.',
      );
    case 'older': {
      const next = `the next catch-up brings it to ${CURRENT_FORMAT}`;
      return ok(about, `${path} has format ${inspected.format}; ${next}`);
    }
    case 'sound':
      return ok(about, `${path} (format ${CURRENT_FORMAT}), found sound`);
  }
}

/** Returns the findings about the content. Pure. */
export function judgeContent(content: CheckpointContent, now: Date): readonly Finding[] {
  const desired = [...content.desiredStates.values()].filter(({ members }) => members.size > 0).length;
  const what = `${plural(content.followed.size, 'subscription')} followed, ${plural(desired, 'dataset')} desired`;
  return [
    ok('content', what),
    ...oldestPosition(content, now),
    ...suspensionFindings(content.suspensions),
    ...failureFindings([...content.failures.values()].filter((failure) => isOfMember(failure, content))),
  ];
}

/** Returns nothing where the last run of the command did not fail. Pure. */
function judgeHook({ failure }: HookRecord, now: Date): readonly Finding[] {
  if (failure === null) return [];
  const { message, attempts, failedAt } = failure;
  const found = `${message}\nFailed ${plural(attempts, 'time')} in a row, last at ${formatTimeFrom(now, failedAt)}.`;
  const hint =
    'Its output is in the log. A running instance notifies it again by itself; without one: feed-sync once';
  return [problem('after commits', found, EXIT_CODES.tryAgainLater, hint)];
}

/** Returns nothing where `run` never worked. Pure. */
function judgeScrub(scrub: ScrubRecord, everyMs: number, now: Date): readonly Finding[] {
  const since = scrub.completedAt ?? scrub.beganAt;
  if (since === null) return [];
  const isComplete = scrub.completedAt !== null;
  const found = `${isComplete ? 'the last was complete' : 'the first began'} at ${formatTimeFrom(now, since)}`;
  if (now.getTime() - since.getTime() < 2 * everyMs) return [ok('scrub', found)];
  const hint =
    'Only feed-sync run scrubs, while nothing else is to be done. To read everything now: feed-sync verify';
  return [warning('scrub', found, hint)];
}

/** A log that is read from its start, because it is quiet, has no position that could expire. */
function oldestPosition({ followed }: CheckpointContent, now: Date): readonly Finding[] {
  const read = [...followed.values()].filter(
    ({ cursor, replayedAt }) => cursor !== null && replayedAt === null,
  );
  const [oldest] = read.sort((left, right) => left.cursorAt.getTime() - right.cursorAt.getTime());
  if (oldest === undefined) return [];
  const ageMs = Math.max(0, now.getTime() - oldest.cursorAt.getTime());
  const kept = `the service keeps events for ${EVENTS_KEPT_DAYS} days`;
  const found = `the oldest is that of ${oldest.subscriptionId}, of ${plural(Math.floor(ageMs / DAY_MS), 'day')} ago; ${kept}`;
  if (ageMs < OLD_POSITION_MS) return [ok('positions', found)];
  const hint = 'Before it expires, which costs a start from the manifest: feed-sync once';
  return [warning('positions', found, hint)];
}

/** The failure of a dataset that no subscription contains any more is over. */
function isOfMember({ datasetId }: Failure, { desiredStates }: CheckpointContent): boolean {
  const desired = desiredStates.get(datasetId);
  return desired === undefined || desired.members.size > 0;
}

/** The suspensions of datasets that have one cause are one finding. */
function suspensionFindings(suspensions: readonly Suspension[]): readonly Finding[] {
  const byCause = Map.groupBy(suspensions, (suspension) => {
    const { scope, operation, status, code, message } = suspension.refusal;
    if (scope.kind !== 'dataset' || suspension.candidate !== undefined) return suspension;
    return causeIn([operation, status, code, message].join(' '), scope.datasetId);
  });
  return [...byCause.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const finding = suspensionFinding(first);
    const ids = others.flatMap(({ refusal: { scope } }) => (scope.kind === 'dataset' ? scope.datasetId : []));
    return { ...finding, found: `${finding.found}${theSameFor(ids)}` };
  });
}

function suspensionFinding(suspension: Suspension): Finding {
  const { refusal, suspendedAt, candidate } = suspension;
  const { status, code, message, operation, scope, links } = refusal;
  const what =
    status === null
      ? `${formatScope(scope)} is suspended (${code})`
      : `the service refused to ${operation} (${statusAndCode(refusal)})`;
  const details = candidate === undefined ? [] : detailsOf(candidate);
  const found = [`${what} since ${formatTime(suspendedAt)}:`, message, ...details].join('\n');
  return {
    ...problem('suspension', found, EXIT_CODES.operatorMustAct, ...waysOutOf(suspension)),
    links: Object.fromEntries(links),
  };
}

/** The most causes of failures that are reported one by one; the rest is counted. */
const MAX_FAILURES = 20;

function failureFindings(failures: readonly Failure[]): readonly Finding[] {
  const byCause = Map.groupBy(
    failures,
    ({ error, message, datasetId }) => `${error} ${causeIn(message, datasetId)}`,
  );
  const reported = [...byCause.values()].slice(0, MAX_FAILURES).flatMap(([failure, ...others]) => {
    if (failure === undefined) return [];
    const { datasetId, error, message, hint, retryAt } = failure;
    const same = theSameFor(others.map((other) => other.datasetId));
    const found = `${datasetId}: ${message}\nTried again after ${formatTime(retryAt)}.${same}`;
    const retry = `To have it tried at the next catch-up: feed-sync resume --dataset ${shellWord(datasetId)}`;
    return problem('failed', found, ERRORS[error].exitCode, ...(hint === null ? [] : [hint]), retry);
  });
  const rest = byCause.size - reported.length;
  if (rest <= 0) return reported;
  const found = `and ${plural(rest, 'more cause')}`;
  return [...reported, problem('failed', found, EXIT_CODES.dataFault, 'To see them all: feed-sync status')];
}

/** Logs and their indexes belong to the file with the same beginning. */
const FOLLOWERS = /(?:\.wal|-wal|-shm)$/;

/** No findings where the folder cannot be read. */
async function quarantineFindings(what: 'checkpoint' | 'mirror', path: string): Promise<readonly Finding[]> {
  const names = await readdir(dirname(path)).catch(() => []);
  const all = names
    .map((name) => join(dirname(path), name))
    .filter((candidate) => candidate.startsWith(`${path}.corrupt-`))
    .sort();
  const files = all.filter((one) => !FOLLOWERS.test(one));
  const logs = all.filter((one) => FOLLOWERS.test(one) && !files.includes(one.replace(FOLLOWERS, '')));
  const found = (kept: readonly string[], kind: string) =>
    `${plural(kept.length, kind)} of earlier days: ${kept.join(', ')}.`;
  const hint = `Check the disk, then remove them: with three of them a damaged ${what} is not built anew any more.`;
  const logHint = `Check the disk, unless the power was cut then. Nothing needs them; the newest ${MAX_QUARANTINED} logs stay.`;
  return [
    ...(files.length === 0 ? [] : [warning('quarantined', found(files, 'damaged file'), hint)]),
    ...(logs.length === 0 ? [] : [warning('quarantined', found(logs, 'damaged log'), logHint)]),
  ];
}

/** Longer than a commit of a running instance takes. */
const MAX_WAIT_MS = 3_000;

export async function checkMirror(facts: Facts, signal: AbortSignal): Promise<readonly Finding[]> {
  const { inspection, context } = facts;
  const url = inspection.known('destination.url');
  if (url !== null) return await checkDatabase(url, facts, signal);
  const path = inspection.known('destination.path');
  if (path === null) return [notKnown('file', 'destination.path')];
  if (fileInTheWay(path) !== null) return [skipped('file', 'A file is in the way of its folder, see disk.')];
  const quarantined = await quarantineFindings('mirror', path);
  try {
    // A wrong setting does not prevent reading the mirror.
    const mirror = await readMirror(
      {
        destination: { path, place: path, postgres: null, publish: null },
        lock: { waitMs: Math.min(inspection.known('lock.wait') ?? 0, MAX_WAIT_MS) },
        duckdb: {
          memoryLimitBytes: inspection.known('duckdb.memoryLimit') ?? 0,
          threads: inspection.known('duckdb.threads') ?? 1,
        },
      },
      { clock: context.clock, random: context.random, signal },
    );
    if (mirror === null) {
      return [ok('file', `none yet at ${path}: feed-sync once makes it`), ...quarantined];
    }
    facts.mirror = mirror;
    const file = { path, bytes: mirrorBytes(path), freeBytes: mirror.freeBytes, format: mirror.format };
    const findings = [...judgeMirror(file, mirror, inspection.known('service.baseUrl'))];
    findings.push(...judgeHistory(mirror, mirror.pastLogs ?? [], inspection.known('history.datasets')));
    return [...findings, ...mirror.unions.map(unionFinding), ...(await copyFindings(facts)), ...quarantined];
  } catch (error) {
    return [cannotBeRead(error, facts), ...quarantined];
  }
}

/** No findings where publishing is off. */
async function copyFindings({ inspection, context }: Facts): Promise<readonly Finding[]> {
  const about = 'published copy';
  const path = inspection.known('destination.publish');
  if (path === null) return [];
  const copy = await seeFile(path);
  if (copy === null) {
    return [warning(about, `none yet at ${path} (destination.publish)`, 'Make it: feed-sync once')];
  }
  const at = formatTimeFrom(context.clock.now(), copy.changedAt);
  return [ok(about, `${path} (${formatBytes(copy.bytes)}), published at ${at}`)];
}

function unionFinding({ name, members, leftOut, unusable }: RecordedUnion): Finding {
  const about = `union ${name}`;
  const found = plural(members, 'table');
  if (unusable.length > 0) {
    const hint = `Load them again: feed-sync resync ${unusable.join(' ')}`;
    return warning(
      about,
      `${found}; left out, because altered outside feed-sync: ${unusable.join(', ')}`,
      hint,
    );
  }
  if (members === 0) return ok(about, `${found}: the view is made once a dataset matches`);
  if (leftOut.length === 0) return ok(about, found);
  return ok(about, `${found}; left out, because they differ: ${leftOut.map(formatLeftOut).join('; ')}`);
}

interface MirrorFile extends MirrorSize {
  readonly path: string;
  /** Null where nothing was written yet. */
  readonly format: number | null;
}

/** Returns the findings about a readable mirror. Pure. */
export function judgeMirror(
  file: MirrorFile,
  observed: ObservedState,
  baseUrl: string | null,
): readonly Finding[] {
  const { path, bytes, freeBytes, format } = file;
  const size = `${formatBytes(bytes)}, ${format === null ? 'no table of feed-sync in it yet' : `format ${format}`}`;
  const findings = [ok('file', `${path} (${size}), readable`)];
  if (isWorthCompacting(file)) {
    const found = `${formatBytes(freeBytes ?? 0)} of the file are unused.`;
    const hint = 'To give them back, while no instance is running: feed-sync compact';
    findings.push(warning('space', found, hint));
  }
  return [...findings, ...judgeTables(observed, baseUrl)];
}

/** A commit of the running instance is no problem; another process that has locked the file is. */
function cannotBeRead(error: unknown, { runningInstance }: Facts): Finding {
  if (!(error instanceof BusyError) || runningInstance === null) return findingOf('file', error);
  const found = `${error.message} An instance is running: it may be loading a large dataset.`;
  return warning('file', found, 'Try again in a moment.');
}

export async function checkLocks(facts: Facts): Promise<readonly Finding[]> {
  const instance = instanceFinding(facts);
  return [instance, ...mirrorLockFindings(facts), ...(await statusAddressFindings(facts))];
}

function mirrorLockFindings(facts: Facts): readonly Finding[] {
  const { inspection, context } = facts;
  if (inspection.known('destination.url') !== null) return [];
  const path = inspection.known('destination.path');
  if (path === null) return [notKnown('mirror', 'destination.path')];
  const locks = mirrorLocks(path, context.readFile).filter(({ pid }) => pid !== context.identity.pid);
  return [judgeMirrorLocks(locks, facts.runningInstance, (pid) => processName(pid, context))];
}

/** Nothing where `run` could listen, or an instance is running, which listens there itself. */
async function statusAddressFindings({ inspection, runningInstance }: Facts): Promise<readonly Finding[]> {
  const listen = inspection.known('status.listen');
  if (listen === null || runningInstance !== null) return [];
  try {
    await tryListening(listen);
    return [];
  } catch (error) {
    const { found, hints } = findingOf('status address', error);
    return [
      warning('status address', `${found} run ends with exit code 78; once does not need it.`, ...hints),
    ];
  }
}

function instanceFinding(facts: Facts): Finding {
  const about = 'instance';
  const dataDirectory = facts.inspection.known('dataDir');
  if (dataDirectory === null) return notKnown(about, 'dataDir');
  try {
    const { uid } = facts.context.identity;
    const { isLocked, holder } = readInstanceLock({ path: instanceLockPath(dataDirectory), uid });
    if (!isLocked) return ok(about, 'none is running here');
    if (holder === null) return ok(about, 'one is just starting');
    facts.runningInstance = holder;
    const { pid, host, command, startedAt } = holder;
    return ok(about, `process ${pid} on ${host} runs \`${command}\` since ${formatTime(startedAt)}`);
  } catch (error) {
    return findingOf(about, error);
  }
}

/** Returns the finding about the locks that other processes have on the mirror. Pure but for `nameOf`. */
export function judgeMirrorLocks(
  locks: readonly FileLock[],
  instance: InstanceHolder | null,
  nameOf: (pid: number) => string | null,
): Finding {
  const about = 'mirror';
  const foreign = locks.filter(({ pid }) => pid !== instance?.pid);
  if (locks.length === 0) return ok(about, 'nobody is seen to hold it');
  if (foreign.length === 0) return ok(about, 'held by the running instance, which is committing');
  const named = foreign.map(({ pid, mode }) => {
    const name = nameOf(pid);
    return `process ${pid}${name === null ? '' : ` (${name})`} ${mode} it`;
  });
  const found = `${named.join(', ')}. A commit waits for it up to lock.wait.`;
  const hint = 'End it, or let it open the mirror read-only and for short moments.';
  return foreign.some(({ mode }) => mode === 'writes')
    ? problem(about, found, EXIT_CODES.tryAgainLater, hint)
    : warning(about, found, hint);
}

function processName(pid: number, { readFile }: Facts['context']): string | null {
  try {
    return readFile(`/proc/${pid}/comm`).trim();
  } catch {
    return null;
  }
}
