/** Shows on a terminal how far the comparison of contents is. */

import type { Clock } from '../../lib/clock.ts';
import { printable } from '../../lib/text.ts';
import { formatBytes, formatCount, plural } from '../../lib/units.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { type Extent, type Progress, silentProgress } from '../../sync/progress.ts';
import type { Terminal } from '../context.ts';
import { Meter, passed } from '../render/meter.ts';
import { joined, Redrawing, type Screen, shortened } from '../render/screen.ts';

/** The most characters of an id that the line shows. */
const MAX_ID_WIDTH = 40;

export class ComparisonProgress implements Progress {
  readonly #clock: Clock;
  readonly #tables: number;
  readonly #startedMs: number;
  readonly #ended = new Set<string>();
  #bytes: Meter;
  #rows = 0;
  #now: { readonly datasetId: string; readonly rows: number | null } | null = null;

  constructor(tables: readonly ObservedTable[], clock: Clock) {
    this.#clock = clock;
    this.#tables = tables.length;
    this.#startedMs = clock.monotonicMs();
    this.#bytes = new Meter(this.#startedMs);
  }

  began(datasetId: string, _step: string, { rows }: Extent): void {
    this.#now = { datasetId, rows };
    this.#rows = 0;
  }

  downloaded(bytes: number): void {
    this.#bytes.add(bytes, this.#clock.monotonicMs());
  }

  readRows(rows: number): void {
    this.#rows += rows;
  }

  ended(datasetId: string): void {
    this.#ended.add(datasetId);
  }

  read = silentProgress.read;
  started = silentProgress.started;
  arrived = silentProgress.arrived;
  committed = silentProgress.committed;
  settled = silentProgress.settled;

  /** Redraws the line until the returned function is called. */
  show(screen: Screen, terminal: Terminal): () => Promise<void> {
    const redrawing = new Redrawing(screen, this.#clock, () => screen.draw([this.line(terminal.width)]));
    return () => redrawing.end();
  }

  line(width: number): string {
    const nowMs = this.#clock.monotonicMs();
    const rate = this.#bytes.rate(nowMs);
    const parts = [
      `Comparing: ${formatCount(this.#ended.size)} of ${plural(this.#tables, 'dataset')}`,
      ...this.#current(),
      ...(this.#bytes.total === 0 ? [] : [`${formatBytes(this.#bytes.total)} downloaded`]),
      ...(rate === null || rate === 0 ? [] : [`${formatBytes(rate)}/s`]),
      passed(nowMs - this.#startedMs),
    ];
    return joined(parts, Math.max(1, width - 1));
  }

  #current(): readonly string[] {
    if (this.#now === null) return [];
    const { datasetId, rows } = this.#now;
    const id = shortened(printable(datasetId), MAX_ID_WIDTH);
    if (this.#rows === 0) return [`${id}: downloading`];
    // Addresses of deleted rows count, too.
    const read = rows === null ? this.#rows : Math.min(this.#rows, rows);
    return [`${id}: ${formatCount(read)} of ${plural(rows ?? this.#rows, 'row')}`];
  }
}
