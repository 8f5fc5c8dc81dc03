/**
 * What a catch-up shows while it works: one line that is written over on a terminal, and a log line per dataset
 * elsewhere.
 */

import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { formatBytes, formatCount, formatDuration } from '../lib/units.ts';
import type { Progress } from '../sync/progress.ts';
import type { DatasetResult } from '../sync/result.ts';
import { ERASE_LINE, type Terminal } from './terminal.ts';

/** Often enough to look alive, seldom enough to cost nothing. */
const REDRAW_EVERY_MS = 100;

export interface ProgressLine extends Progress {
  /** Takes the line away, so that what follows starts on a clean one. */
  end(): void;
}

export function progressFor(terminal: Terminal, clock: Clock, log: Log): ProgressLine {
  return terminal.isWatched ? progressLine(terminal, clock) : progressLog(log);
}

function progressLine({ stderr, width }: Terminal, clock: Clock): ProgressLine {
  const startedMs = clock.monotonicMs();
  let datasets = 0;
  let settled = 0;
  let bytes = 0;
  let rows = 0;
  let drawnMs = Number.NEGATIVE_INFINITY;
  const draw = (): void => {
    const nowMs = clock.monotonicMs();
    if (nowMs - drawnMs < REDRAW_EVERY_MS) return;
    drawnMs = nowMs;
    const line = [
      `${settled} of ${datasets} datasets`,
      `${formatBytes(bytes)} downloaded`,
      `${formatCount(rows)} rows loaded`,
      formatDuration(nowMs - startedMs),
    ].join(', ');
    stderr.write(`${ERASE_LINE}${line.slice(0, width - 1)}`);
  };
  return {
    started(count) {
      datasets = count;
      draw();
    },
    downloaded(count) {
      bytes += count;
      draw();
    },
    settled(result) {
      settled += 1;
      if (result.kind === 'loaded') rows += result.rowCount;
      draw();
    },
    end() {
      stderr.write(ERASE_LINE);
    },
  };
}

function progressLog(log: Log): ProgressLine {
  return {
    started(datasets) {
      log.info({ datasets }, 'Catching up.');
    },
    downloaded() {},
    settled(result) {
      logResult(log, result);
    },
    end() {},
  };
}

function logResult(log: Log, result: DatasetResult): void {
  const { datasetId: dataset } = result;
  switch (result.kind) {
    case 'loaded': {
      const { version, rowCount: rows, bytes, durationMs } = result;
      log.info({ dataset, version, rows, bytes, durationMs: Math.round(durationMs) }, 'Loaded a snapshot.');
      return;
    }
    case 'current':
      log.debug({ dataset }, 'Nothing to do.');
      return;
    case 'waiting':
      log.info({ dataset, why: result.why }, 'Waiting.');
      return;
    case 'held':
      log.warn({ dataset, code: result.hold.refusal.code }, 'Held: the service refused.');
      return;
    case 'failed':
      log.error({ dataset, error: result.error.name, why: result.error.message }, 'Failed.');
      return;
  }
}
