/** What `compact` tells people. Pure. */

import type { CopyProgress } from '../../destination/duckdb/compact/copy-content.ts';
import { printable } from '../../lib/printable.ts';
import { formatBytes, formatCount } from '../../lib/units.ts';
import { cut } from '../live/shortened.ts';
import type { CompactionView } from './view.ts';

const PHASES: Readonly<Record<CopyProgress['phase'], string>> = { copying: 'Copying', proving: 'Comparing' };

export function tellCompaction({ mirror, bytesBefore, bytesAfter, tables }: CompactionView): string {
  if (bytesBefore === null || bytesAfter === null) {
    return `There is no mirror yet at ${mirror}, and nothing to compact.`;
  }
  const sizes = `${formatBytes(bytesBefore)} before, ${formatBytes(bytesAfter)} now`;
  return `The mirror ${mirror} is compacted: ${sizes}. All ${formatCount(tables ?? 0)} tables were compared.`;
}

/** One line of a screen. */
export function progressLine({ phase, table, done, tables, share }: CopyProgress, width: number): string {
  const percent = `${Math.floor(share() * 100)} %`;
  const of = `table ${formatCount(done + 1)} of ${formatCount(tables)}`;
  // A character in the last column would have some terminals begin another line.
  return cut(`${PHASES[phase]}: ${percent}, ${of}, ${printable(table)}`, Math.max(1, width - 1));
}
