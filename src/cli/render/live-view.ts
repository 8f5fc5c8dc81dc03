/**
 * The lines of the live view: a head with counts, incidents and suspensions, and the datasets that are worked on. Pure.
 *
 * Invariant: no line is wider than the screen, and the view takes at most half of the screen's rows, so that the log
 * stays in sight.
 */

import type { StateSummary } from '../../daemon/state-of.ts';
import type { Clock } from '../../lib/clock.ts';
import { printable } from '../../lib/text.ts';
import { formatBytes, formatBytesOf, formatCount, plural } from '../../lib/units.ts';
import type { Terminal } from '../context.ts';
import { allLeftMs, passed, roughly, type StepSeen, timeLeftMs, type WorkSeen } from './meter.ts';
import { COLORED, cut, joined, type Paint, PLAIN, Redrawing, type Screen, shortened } from './screen.ts';

/** Further incidents are only counted. */
const MAX_SHOWN_INCIDENTS = 3;
/** Further steps that have received nothing yet are only counted. */
const MAX_STILL = 3;
/** An empty line, the head, a step and the count of the rest. */
const LEAST_LINES = 4;

export interface LiveState {
  readonly work: WorkSeen;
  /** The state of the daemon; null for a single catch-up. */
  readonly summary: StateSummary | null;
  /** On the monotonic clock. */
  readonly nowMs: number;
}

/**
 * Returns the lines of the view. The first line is empty: it separates the view from the log, and the cursor rests there. The size is in
 * columns and rows.
 */
export function frameOf(
  state: LiveState,
  { width, height }: { readonly width: number; readonly height: number },
  paint: Paint,
): readonly string[] {
  // A character in the last column would have some terminals begin another line.
  const usable = Math.max(1, width - 1);
  const limit = Math.max(LEAST_LINES, Math.floor(height / 2));
  const head = ['', paint.strong(joined(headOf(state), usable))];
  const wrong = wrongLines(state.summary, usable).map(paint.alarming);
  const { steps } = state.work;
  const seen = worthSeeing(steps);
  const room = Math.max(1, limit - head.length - wrong.length);
  const shown = seen.slice(0, steps.length > Math.min(room, seen.length) ? room - 1 : room);
  const rest = steps.length - shown.length;
  const idWidth = idWidthOf(steps, usable);
  return [
    ...head,
    ...wrong,
    ...shown.map((step) => cut(stepLine(step, state.nowMs, idWidth), usable)),
    ...(rest > 0 ? [paint.faint(cut(`  and ${formatCount(rest)} more`, usable))] : []),
  ].slice(0, Math.max(1, height - 1));
}

/** Steps that have received nothing yet come last: most of them wait for a connection. */
function worthSeeing(steps: readonly StepSeen[]): readonly StepSeen[] {
  const isMoving = ({ bytes, isHere }: StepSeen): boolean => isHere || bytes.total > 0;
  const still = steps.filter((step) => !isMoving(step)).slice(0, MAX_STILL);
  return [...steps.filter(isMoving), ...still];
}

/** Returns the parts of the head, the most important part first. */
function headOf({ work, summary, nowMs }: LiveState): readonly string[] {
  if (summary === null)
    return [catchUpCounts(work), ...remaining(work, nowMs), ...traffic(work, nowMs), sinceStart(work, nowMs)];
  switch (summary.phase) {
    case 'draining':
      return ['Stopping: finishing or rolling back the work in progress'];
    case 'starting':
      return ['Starting: asking the service what there is', sinceStart(work, nowMs)];
    case 'following':
      return summary.underWay + summary.due > 0
        ? [workCounts(work, summary), ...traffic(work, nowMs), nextPoll(summary)]
        : [condition(summary), ...polls(summary)];
  }
}

function catchUpCounts({ datasets, settledDatasets, events, commits, failed, suspended }: WorkSeen): string {
  if (datasets === null) {
    const read = events === 0 ? [] : [plural(events, 'event')];
    return `Catching up: ${['asking the service what there is', ...read].join(', ')}`;
  }
  return `Catching up: ${[
    `${formatCount(settledDatasets)} of ${plural(datasets, 'dataset')}`,
    plural(commits, 'commit'),
    ...counted(failed, 'failed'),
    ...counted(suspended, 'suspended'),
  ].join(', ')}`;
}

function workCounts(
  { settledDatasets, commits }: WorkSeen,
  { underWay, due, incidents }: StateSummary,
): string {
  return `Working: ${[
    `${formatCount(settledDatasets)} of ${plural(settledDatasets + underWay + due, 'dataset')}`,
    plural(commits, 'commit'),
    ...counted(incidents.length, 'with errors'),
  ].join(', ')}`;
}

/** The daemon is idle when nothing is left to do. It waits when work is left that it cannot do now. */
function condition({ tables, waiting, incidents, suspensions }: StateSummary): string {
  const word = waiting + incidents.length + suspensions > 0 ? 'Waiting' : 'Idle';
  return `${word}: ${[plural(tables, 'table'), ...counted(waiting, 'retried later')].join(', ')}`;
}

function polls(summary: StateSummary): readonly string[] {
  const { lastPollAt, now } = summary;
  const last = lastPollAt === null ? [] : [`last poll ${passed(now.getTime() - lastPollAt.getTime())} ago`];
  return [...last, nextPoll(summary)];
}

function nextPoll({ nextPollInMs }: StateSummary): string {
  return nextPollInMs === 0 ? 'polling' : `next poll in ${roughly(nextPollInMs)}`;
}

/** Returns the bytes that have arrived, and their rate. */
function traffic({ bytes }: WorkSeen, nowMs: number): readonly string[] {
  if (bytes.total === 0) return [];
  const rate = bytes.rate(nowMs) ?? 0;
  const fast = rate > 0 ? ` at ${formatBytes(Math.round(rate))}/s` : '';
  return [`${formatBytes(bytes.total)}${fast}`];
}

/** Returns the time that the whole catch-up still takes, where it can be estimated. */
function remaining(work: WorkSeen, nowMs: number): readonly string[] {
  const leftMs = allLeftMs(work, nowMs);
  return leftMs === null ? [] : [`~${roughly(leftMs)} left`];
}

function sinceStart({ startedMs }: WorkSeen, nowMs: number): string {
  return passed(nowMs - startedMs);
}

function wrongLines(summary: StateSummary | null, width: number): readonly string[] {
  if (summary === null) return [];
  const { incidents, suspensions, now } = summary;
  const lines = incidents.slice(0, MAX_SHOWN_INCIDENTS).map(({ of, since, message }) => {
    return `! ${of}, for ${passed(now.getTime() - since.getTime())}: ${message.replaceAll(/\s*\n\s*/g, ' ')}`;
  });
  const rest = incidents.length - lines.length;
  if (rest > 0) lines.push(`! and ${plural(rest, 'more incident')}: feed-sync status`);
  if (suspensions > 0) {
    lines.push(`! ${formatCount(suspensions)} suspended until you have acted: feed-sync status`);
  }
  return lines.map((line) => cut(`  ${printable(line)}`, width));
}

function counted(count: number, words: string): readonly string[] {
  return count === 0 ? [] : [`${formatCount(count)} ${words}`];
}

/** A longer id is shortened, so that the steps stand below each other. */
const ID_WIDTH = 20;
/** The width of the step and all numbers. */
const NUMBERS_WIDTH = 59;

/** A wide screen has room for longer ids. */
function idWidthOf(steps: readonly StepSeen[], width: number): number {
  const longest = steps.reduce((most, { datasetId }) => Math.max(most, printable(datasetId).length), 0);
  return Math.max(ID_WIDTH, Math.min(longest, width - NUMBERS_WIDTH));
}

/** A screen of 80 columns has room for the step and all numbers; a narrower one cuts the last number first. */
function stepLine(step: StepSeen, nowMs: number, idWidth: number): string {
  const id = shortened(printable(step.datasetId), idWidth).padEnd(idWidth);
  const parts = [id, printable(step.step), bytesOf(step), rateOf(step, nowMs), leftOf(step, nowMs)];
  return `  ${parts.filter((part) => part !== '').join('  ')}`;
}

/** `18.2 of 40.0 MB`; `1.2 MB` where the total is not known. */
function bytesOf({ extent, bytes, isHere }: StepSeen): string {
  const total = extent.bytes;
  if (total === null || isHere) return bytes.total === 0 ? '' : formatBytes(bytes.total);
  // The service may have stated too few bytes.
  return formatBytesOf(Math.min(bytes.total, total), total);
}

function rateOf({ bytes, isHere }: StepSeen, nowMs: number): string {
  const rate = isHere || bytes.total === 0 ? null : bytes.rate(nowMs);
  return rate === null ? '' : `${formatBytes(Math.round(rate))}/s`;
}

function leftOf({ extent, bytes, isHere }: StepSeen, nowMs: number): string {
  if (isHere) return 'writing';
  const leftMs = timeLeftMs(bytes, extent.bytes, nowMs);
  return leftMs === null ? '' : `~${roughly(leftMs)}`;
}

export class LiveView {
  readonly #redrawing: Redrawing;

  /** `readState` returns the current state, or null where there is nothing to show. `readState` never throws. */
  constructor(
    screen: Screen,
    terminal: Terminal,
    clock: Clock,
    readState: () => Omit<LiveState, 'nowMs'> | null,
  ) {
    const paint = terminal.hasColor ? COLORED : PLAIN;
    this.#redrawing = new Redrawing(screen, clock, () => {
      const state = readState();
      const { width, height } = terminal;
      if (state === null || height === null) screen.clear();
      else screen.draw(frameOf({ ...state, nowMs: clock.monotonicMs() }, { width, height }, paint));
    });
  }

  /** Erases the view. Later output starts where the view was. */
  end(): Promise<void> {
    return this.#redrawing.end();
  }
}
