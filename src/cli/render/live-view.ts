/**
 * What the live view shows, as lines: a head that counts, what is wrong, and what is under way. Pure.
 *
 * Invariant: no line is wider than the screen, and there are never more than half as many as it has rows, so that what
 * was logged stays in sight.
 */

import type { StateSummary } from '../../daemon/state-of.ts';
import type { Clock } from '../../lib/clock.ts';
import { printable } from '../../lib/text.ts';
import { formatBytes, formatBytesOf, formatCount } from '../../lib/units.ts';
import type { Terminal } from '../context.ts';
import { passed, roughly, type StepSeen, timeLeftMs, type WorkSeen } from './meter.ts';
import { COLORED, cut, joined, type Paint, PLAIN, Redrawing, type Screen, shortened } from './screen.ts';

/** What goes wrong, before the rest is counted. */
const MAX_SHOWN_INCIDENTS = 3;
/** Steps for which nothing has come yet, before the rest is counted. */
const MAX_STILL = 3;
/** An empty line above, the head, a step and what is left out. */
const LEAST_LINES = 4;

interface ScreenSize {
  /** Columns and rows. */
  readonly width: number;
  readonly height: number;
}

export interface LiveState {
  readonly work: WorkSeen;
  /** Of the daemon; null: it is a single catch-up. */
  readonly summary: StateSummary | null;
  /** On the monotonic clock. */
  readonly nowMs: number;
}

/** The first line is empty: it sets the view apart from what was logged, and the cursor rests there. */
export function frameOf(state: LiveState, { width, height }: ScreenSize, paint: Paint): readonly string[] {
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
function headOf({ work, summary, nowMs }: LiveState): readonly string[] {
  if (summary === null) return [catchUpCounts(work), ...traffic(work, nowMs), sinceStart(work, nowMs)];
  switch (summary.phase) {
    case 'draining':
      return ['Ending: what is under way is finished or rolled back'];
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
    ...counted(incidents.length, 'in trouble'),
  ].join(', ')}`;
}

/** Idle is who has nothing left to do; who could do more, and cannot now, waits. */
function condition({ tables, waiting, incidents, suspensions }: StateSummary): string {
  const word = waiting + incidents.length + suspensions > 0 ? 'Waiting' : 'Idle';
  return `${word}: ${[plural(tables, 'table'), ...counted(waiting, 'tried again later')].join(', ')}`;
}

function polls(summary: StateSummary): readonly string[] {
  const { lastPollAt, now } = summary;
  const last = lastPollAt === null ? [] : [`last poll ${passed(now.getTime() - lastPollAt.getTime())} ago`];
  return [...last, nextPoll(summary)];
}

function nextPoll({ nextPollInMs }: StateSummary): string {
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

function wrongLines(summary: StateSummary | null, width: number): readonly string[] {
  if (summary === null) return [];
  const { incidents, suspensions, now } = summary;
  const rest = incidents.length - MAX_SHOWN_INCIDENTS;
  return [
    ...incidents.slice(0, MAX_SHOWN_INCIDENTS).map(({ of, since, message }) => {
      return `! ${of}, for ${passed(now.getTime() - since.getTime())}: ${message}`;
    }),
    ...(rest > 0 ? [`! and ${formatCount(rest)} more in trouble: feed-sync status`] : []),
    ...(suspensions > 0
      ? [`! ${formatCount(suspensions)} suspended until you have acted: feed-sync status`]
      : []),
  ].map((line) => cut(`  ${printable(line)}`, width));
}

function counted(count: number, words: string): readonly string[] {
  return count === 0 ? [] : [`${formatCount(count)} ${words}`];
}

function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

const GAP = '  ';
const BAR_WIDTH = 12;
/** Narrower than this, an id says little: other columns make room for it. */
const LEAST_ID_WIDTH = 16;

interface Column {
  readonly cell: (step: StepSeen, nowMs: number) => string;
  /** At least; a wider cell makes it wider. */
  readonly width: number;
  readonly align: 'left' | 'right';
  readonly paint?: keyof Paint;
}

const STEP: Column = { cell: ({ step }) => printable(step), width: 17, align: 'left' };
const BAR: Column = { cell: barOf, width: BAR_WIDTH, align: 'left', paint: 'moving' };
const ROWS: Column = { cell: rowsOf, width: 14, align: 'right', paint: 'faint' };
const BYTES: Column = { cell: bytesOf, width: 15, align: 'right' };
const RATE: Column = { cell: rateOf, width: 10, align: 'right' };
const LEFT: Column = { cell: leftOf, width: 7, align: 'right', paint: 'strong' };

/** From the widest screen to the narrowest. */
const LAYOUTS: readonly (readonly Column[])[] = [
  [STEP, BAR, BYTES, ROWS, RATE, LEFT],
  [STEP, BYTES, ROWS, RATE, LEFT],
  [STEP, BYTES, RATE, LEFT],
  [STEP, BYTES, LEFT],
  [BYTES, LEFT],
  [LEFT],
];

/** No line is longer than `width`. */
function stepLines(
  steps: readonly StepSeen[],
  width: number,
  nowMs: number,
  paint: Paint,
): readonly string[] {
  const ids = steps.map(({ datasetId }) => printable(datasetId));
  const longest = Math.max(0, ...ids.map(({ length }) => length));
  const layouts = LAYOUTS.map((columns) => laidOut(columns, steps, nowMs));
  const fits = (laid: Laid, least: number): boolean => width - laid.width - GAP.length >= least;
  const laid =
    layouts.slice(0, 3).find((one) => fits(one, longest)) ??
    layouts.slice(2).find((one) => fits(one, Math.min(longest, LEAST_ID_WIDTH)));
  if (laid === undefined) return ids.map((id) => cut(`${GAP}${id}`, width));
  const idWidth = Math.min(longest, width - GAP.length - laid.width);
  return ids.map((id, row) => {
    const cells = laid.rows[row]?.map(({ text, column }) => `${GAP}${painted(text, column, paint)}`) ?? [];
    return `${GAP}${shortened(id, idWidth).padEnd(idWidth)}${cells.join('')}`.trimEnd();
  });
}

interface Laid {
  readonly rows: readonly (readonly { readonly text: string; readonly column: Column }[])[];
  /** Of all columns with the gaps before them. */
  readonly width: number;
}

function laidOut(columns: readonly Column[], steps: readonly StepSeen[], nowMs: number): Laid {
  const all = columns.map((column) => {
    const texts = steps.map((step) => column.cell(step, nowMs));
    const width = Math.max(column.width, ...texts.map(({ length }) => length));
    const cells = texts.map((text) => (column.align === 'left' ? text.padEnd(width) : text.padStart(width)));
    return { column, width, cells };
  });
  return {
    rows: steps.map((_, row) => all.map(({ column, cells }) => ({ text: cells[row] ?? '', column }))),
    width: all.reduce((sum, { width }) => sum + GAP.length + width, 0),
  };
}

function painted(text: string, { paint: colour }: Column, paint: Paint): string {
  return colour === undefined || text.trim() === '' ? text : paint[colour](text);
}

function barOf({ extent, bytes, isHere }: StepSeen): string {
  if (isHere) return '━'.repeat(BAR_WIDTH);
  if (extent.bytes === null || extent.bytes === 0) return '';
  const filled = Math.floor(BAR_WIDTH * Math.min(1, bytes.total / extent.bytes));
  return `${'━'.repeat(filled)}${'─'.repeat(BAR_WIDTH - filled)}`;
}

/** `18.2 of 40.0 MB`; `1.2 MB` where the end is not known. */
function bytesOf({ extent, bytes, isHere }: StepSeen): string {
  const total = extent.bytes;
  if (total === null || isHere) return bytes.total === 0 ? '' : formatBytes(bytes.total);
  // The service may have said too little.
  return formatBytesOf(Math.min(bytes.total, total), total);
}

function rowsOf({ extent: { rows } }: StepSeen): string {
  return rows === null ? '' : `${formatCount(rows)} row${rows === 1 ? '' : 's'}`;
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

type Looked = Omit<LiveState, 'nowMs'>;

export class LiveView {
  readonly #redrawing: Redrawing;

  /** `look`: how things are now; null: there is nothing to show. Never throws. */
  constructor(screen: Screen, terminal: Terminal, clock: Clock, look: () => Looked | null) {
    const paint = terminal.hasColor ? COLORED : PLAIN;
    this.#redrawing = new Redrawing(screen, clock, () => {
      const looked = look();
      const { width, height } = terminal;
      if (looked === null || height === null) screen.clear();
      else screen.draw(frameOf({ ...looked, nowMs: clock.monotonicMs() }, { width, height }, paint));
    });
  }

  /** What follows is written where the view was. */
  end(): Promise<void> {
    return this.#redrawing.end();
  }
}
