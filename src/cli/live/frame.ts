/**
 * What the live view shows, as lines: a head that counts, what is wrong, and what is under way. Pure.
 *
 * Invariant: no line is wider than the screen, and there are never more than half as many as it has rows, so that what
 * was logged stays in sight.
 */

import type { Glance } from '../../daemon/glance.ts';
import { printable } from '../../lib/printable.ts';
import { formatBytes, formatCount } from '../../lib/units.ts';
import type { Paint } from './paint.ts';
import { cut, joined } from './shortened.ts';
import { passed, roughly } from './spans.ts';
import { stepLines } from './step-lines.ts';
import type { StepSeen, WorkSeen } from './work-seen.ts';

/** What goes wrong, before the rest is counted. */
const MAX_TROUBLES = 3;
/** Steps for which nothing has come yet, before the rest is counted. */
const MAX_STILL = 3;
/** An empty line above, the head, a step and what is left out. */
const LEAST_LINES = 4;

export interface ScreenSize {
  /** Columns and rows. */
  readonly width: number;
  readonly height: number;
}

export interface LiveState {
  readonly work: WorkSeen;
  /** Of the daemon; null: it is a single catch-up. */
  readonly glance: Glance | null;
  /** On the monotonic clock. */
  readonly nowMs: number;
}

/** The first line is empty: it sets the view apart from what was logged, and the cursor rests there. */
export function frameOf(state: LiveState, { width, height }: ScreenSize, paint: Paint): readonly string[] {
  // A character in the last column would have some terminals begin another line.
  const usable = Math.max(1, width - 1);
  const limit = Math.max(LEAST_LINES, Math.floor(height / 2));
  const head = ['', paint.strong(joined(headOf(state), usable))];
  const wrong = wrongLines(state.glance, usable).map(paint.alarming);
  const { steps } = state.work;
  const seen = worthSeeing(steps);
  const room = Math.max(1, limit - head.length - wrong.length);
  const shown = seen.slice(0, steps.length > Math.min(room, seen.length) ? room - 1 : room);
  const rest = steps.length - shown.length;
  return [
    ...head,
    ...wrong,
    ...stepLines(shown, usable, state.nowMs, paint),
    ...(rest > 0 ? [paint.faint(cut(`  and ${formatCount(rest)} more`, usable))] : []),
  ].slice(0, Math.max(1, height - 1));
}

/** Those for which nothing has come yet, behind all others: most of them wait for their turn, and have the least to tell. */
function worthSeeing(steps: readonly StepSeen[]): readonly StepSeen[] {
  const isMoving = ({ bytes, isHere }: StepSeen): boolean => isHere || bytes.total > 0;
  const still = steps.filter((step) => !isMoving(step)).slice(0, MAX_STILL);
  return [...steps.filter(isMoving), ...still];
}

/** Parts, the more telling ones first. */
function headOf({ work, glance, nowMs }: LiveState): readonly string[] {
  if (glance === null) return [catchUpCounts(work), ...traffic(work, nowMs), sinceStart(work, nowMs)];
  switch (glance.phase) {
    case 'draining':
      return ['Ending: what is under way is finished or rolled back'];
    case 'starting':
      return ['Starting: asking the service what there is', sinceStart(work, nowMs)];
    case 'following':
      return glance.underWay + glance.due > 0
        ? [workCounts(work, glance), ...traffic(work, nowMs), nextPoll(glance)]
        : [standing(glance), ...polls(glance)];
  }
}

function catchUpCounts({ datasets, settledDatasets, events, commits, failed, held }: WorkSeen): string {
  if (datasets === null) {
    const read = events === 0 ? [] : [plural(events, 'event')];
    return `Catching up: ${['asking the service what there is', ...read].join(', ')}`;
  }
  return `Catching up: ${[
    `${formatCount(settledDatasets)} of ${plural(datasets, 'dataset')}`,
    plural(commits, 'commit'),
    ...counted(failed, 'failed'),
    ...counted(held, 'held'),
  ].join(', ')}`;
}

function workCounts({ settledDatasets, commits }: WorkSeen, { underWay, due, troubles }: Glance): string {
  return `Working: ${[
    `${formatCount(settledDatasets)} of ${plural(settledDatasets + underWay + due, 'dataset')}`,
    plural(commits, 'commit'),
    ...counted(troubles.length, 'in trouble'),
  ].join(', ')}`;
}

/** Idle is who has nothing left to do; who could do more, and cannot now, waits. */
function standing({ tables, waiting, troubles, holds }: Glance): string {
  const word = waiting + troubles.length + holds > 0 ? 'Waiting' : 'Idle';
  return `${word}: ${[plural(tables, 'table'), ...counted(waiting, 'tried again later')].join(', ')}`;
}

function polls(glance: Glance): readonly string[] {
  const { lastPollAt, now } = glance;
  const last = lastPollAt === null ? [] : [`last poll ${passed(now.getTime() - lastPollAt.getTime())} ago`];
  return [...last, nextPoll(glance)];
}

function nextPoll({ nextPollInMs }: Glance): string {
  return nextPollInMs === 0 ? 'polling' : `next poll in ${roughly(nextPollInMs)}`;
}

/** What has arrived, and how fast. */
function traffic({ bytes }: WorkSeen, nowMs: number): readonly string[] {
  if (bytes.total === 0) return [];
  const rate = bytes.rate(nowMs) ?? 0;
  const fast = rate > 0 ? ` at ${formatBytes(Math.round(rate))}/s` : '';
  return [`${formatBytes(bytes.total)}${fast}`];
}

function sinceStart({ startedMs }: WorkSeen, nowMs: number): string {
  return passed(nowMs - startedMs);
}

function wrongLines(glance: Glance | null, width: number): readonly string[] {
  if (glance === null) return [];
  const { troubles, holds, now } = glance;
  const rest = troubles.length - MAX_TROUBLES;
  return [
    ...troubles.slice(0, MAX_TROUBLES).map(({ of, since, message }) => {
      return `! ${of}, for ${passed(now.getTime() - since.getTime())}: ${message}`;
    }),
    ...(rest > 0 ? [`! and ${formatCount(rest)} more in trouble: feed-sync status`] : []),
    ...(holds > 0 ? [`! ${formatCount(holds)} held until you have acted: feed-sync status`] : []),
  ].map((line) => cut(`  ${printable(line)}`, width));
}

function counted(count: number, words: string): readonly string[] {
  return count === 0 ? [] : [`${formatCount(count)} ${words}`];
}

function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}
