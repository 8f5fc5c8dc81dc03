/** Checks the checkpoint: whether it is sound, and its positions, suspensions and failures. */

import type { Failure, Suspension } from '../../checkpoint/checkpoint.ts';
import { CURRENT_FORMAT } from '../../checkpoint/sqlite/format.ts';
import { type InspectedCheckpoint, inspectCheckpoint } from '../../checkpoint/sqlite/open.ts';
import { shellWord } from '../../lib/text.ts';
import { formatCount } from '../../lib/units.ts';
import { ERRORS } from '../../model/error-codes.ts';
import { type CheckpointContent, contentOf } from '../../reporting/stores.ts';
import { OLD_POSITION_MS } from '../../sync/follow/subscriptions.ts';
import { waysOut } from '../../sync/incidents.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { formatScope, formatTime } from '../render/messages.ts';
import {
  type Check,
  type Checked,
  type CheckInput,
  counted,
  type Finding,
  ok,
  problem,
  skipped,
  troubleOf,
  warning,
} from './check.ts';
import { besides } from './places.ts';
import { suspensionsOf } from './probe.ts';

const LIMIT_MS = 15_000;
const DAY_MS = 86_400_000;
/** After so many days the service drops events (the interface, Limits). */
const EVENTS_KEPT_DAYS = 90;

export const checkpointCheck: Check = { name: 'checkpoint', limitMs: LIMIT_MS, run: checkCheckpoint };

async function checkCheckpoint({ inspection, context }: CheckInput): Promise<Checked> {
  const path = inspection.known('checkpoint.path');
  if (path === null) return { findings: [skipped('file', 'checkpoint.path is not known.')] };
  const quarantined = quarantineFindings('checkpoint', await besides(path, '.corrupt-'));
  let inspected: InspectedCheckpoint;
  try {
    inspected = inspectCheckpoint({ path, uid: context.identity.uid });
  } catch (error) {
    return { findings: [troubleOf('file', error), ...quarantined] };
  }
  const file = judgeFile(path, inspected);
  if (inspected.kind !== 'sound') return { findings: [file, ...quarantined] };
  try {
    const content = contentOf(inspected.content);
    const suspensions = suspensionsOf(content, inspection.configuration).all;
    const findings = judgeContent({ ...content, suspensions }, context.clock.now());
    return { findings: [file, ...findings, ...quarantined], facts: { checkpoint: content } };
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
    case 'older':
      return ok(
        about,
        `${path} has format ${inspected.format}; the next catch-up brings it to ${CURRENT_FORMAT}`,
      );
    case 'sound':
      return ok(about, `${path} (format ${CURRENT_FORMAT}), found sound`);
  }
}

/** Returns the findings about the content. Pure. */
export function judgeContent(content: CheckpointContent, now: Date): readonly Finding[] {
  const wanted = [...content.desiredStates.values()].filter(({ members }) => members.size > 0).length;
  const what = `${counted(content.followed.size, 'subscription')} followed, ${counted(wanted, 'dataset')} wanted`;
  return [
    ok('content', what),
    ...oldestPosition(content, now),
    ...content.suspensions.map(suspensionFinding),
    ...failureFindings([...content.failures.values()]),
  ];
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
  const found = `the oldest is that of ${oldest.subscriptionId}, of ${counted(Math.floor(ageMs / DAY_MS), 'day')} ago; ${kept}`;
  if (ageMs < OLD_POSITION_MS) return [ok('positions', found)];
  return [
    warning('positions', found, 'Before it expires, which costs a start from the manifest: feed-sync once'),
  ];
}

function suspensionFinding({ refusal, suspendedAt }: Suspension): Finding {
  const { status, code, message, operation, scope, links } = refusal;
  const answer = [status, code].filter((part) => part !== null).join(' ');
  const what =
    status === null
      ? `${formatScope(scope)} is suspended (${code})`
      : `the service refused to ${operation} (${answer})`;
  const found = `${what} since ${formatTime(suspendedAt.toISOString())}:\n${message}`;
  return {
    ...problem('suspension', found, EXIT_CODES.operatorMustAct, ...waysOut(refusal)),
    links: Object.fromEntries(links),
  };
}

/** The most failures that are reported one by one; the rest is counted. */
const MAX_FAILURES = 20;

function failureFindings(failures: readonly Failure[]): readonly Finding[] {
  const reported = failures.slice(0, MAX_FAILURES).map((failure) => {
    const { datasetId, error, message, hint, retryAt } = failure;
    const found = `${datasetId}: ${message}\nTried again after ${formatTime(retryAt.toISOString())}.`;
    const hints = [
      ...(hint === null ? [] : [hint]),
      `To have it tried at the next catch-up: feed-sync resume --dataset ${shellWord(datasetId)}`,
    ];
    return problem('failed', found, ERRORS[error].exitCode, ...hints);
  });
  const rest = failures.length - reported.length;
  if (rest <= 0) return reported;
  const found = `and ${formatCount(rest)} more datasets`;
  return [...reported, problem('failed', found, EXIT_CODES.dataFault, 'To see them all: feed-sync status')];
}

/** Logs and their indexes belong to the file with the same beginning. */
const FOLLOWERS = /(?:\.wal|-wal|-shm)$/;

export function quarantineFindings(
  what: 'checkpoint' | 'mirror',
  paths: readonly string[],
): readonly Finding[] {
  const files = paths.filter((path) => !FOLLOWERS.test(path));
  if (files.length === 0) return [];
  const found = `${counted(files.length, 'damaged file')} of earlier days: ${files.join(', ')}.`;
  const hint = `Look at the disk, then remove them: with three of them a damaged ${what} is not built anew any more.`;
  return [warning('quarantined', found, hint)];
}
