/** How growth is written: JSON that later runs add to, and tables for the README. Pure. */

import type { Machine } from '../report.ts';
import { type AxisGrowth, MEASURES, type Measure } from './growth.ts';

export interface GrowthReport {
  /** What the last part was measured on. */
  readonly machine: Machine;
  /** By the names of the axes. */
  readonly axes: readonly AxisGrowth[];
}

const COLUMNS: Readonly<Record<Measure, { readonly title: string; readonly digits: number }>> = {
  seconds: { title: 's', digits: 2 },
  cpuSeconds: { title: 'CPU s', digits: 2 },
  peakMegabytes: { title: 'peak MB', digits: 0 },
  mirrorMegabytes: { title: 'mirror MB', digits: 1 },
};
const number = new Intl.NumberFormat('en-US');

export function growthMarkdown(axes: readonly AxisGrowth[]): string {
  return `${axes.map(axisMarkdown).join('\n\n')}\n`;
}

/** A row for each amount, and two of exponents: 1 is linear. */
function axisMarkdown({ job, what, points, exponents }: AxisGrowth): string {
  const rows = points.map((point) => [
    `${number.format(point.amount)} ${job}`,
    ...MEASURES.map((measure) => point[measure].toFixed(COLUMNS[measure].digits)),
  ]);
  const fitted = (title: string, part: 'overall' | 'upperHalf') =>
    exponents === null
      ? []
      : [[`**${title}**`, ...MEASURES.map((measure) => exponents[measure][part].toFixed(2))]];
  const head = [what, ...MEASURES.map((measure) => COLUMNS[measure].title)];
  const all = [
    head,
    head.map(() => '---'),
    ...rows,
    ...fitted('exponent, upper half', 'upperHalf'),
    ...fitted('exponent, overall', 'overall'),
  ];
  return all.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
