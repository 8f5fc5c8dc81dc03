/**
 * A line for each step that is under way, as columns: dataset, step, how much of it has arrived, how fast, how long it
 * will take. Columns keep their places while numbers change; where the screen is narrow the less telling ones go. Pure.
 */

import { printable } from '../../lib/printable.ts';
import { formatBytes, formatBytesOf, formatCount } from '../../lib/units.ts';
import { timeLeftMs } from './meter.ts';
import type { Paint } from './paint.ts';
import { cut, shortened } from './shortened.ts';
import { roughly } from './spans.ts';
import type { StepSeen } from './work-seen.ts';

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
export function stepLines(
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
