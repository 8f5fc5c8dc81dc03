/**
 * What a catch-up shows while it works: one line that is written over on a terminal, and a log line per dataset
 * elsewhere.
 */

import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { formatBytes, formatCount, formatDuration } from '../lib/units.ts';
import type { Progress } from '../sync/progress.ts';
import type { Commit, DatasetResult } from '../sync/result.ts';
import { ERASE_LINE, printable, type Terminal } from './terminal.ts';

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
  let newest = '';
  let drawnMs = Number.NEGATIVE_INFINITY;
  const draw = (): void => {
    const nowMs = clock.monotonicMs();
    if (nowMs - drawnMs < REDRAW_EVERY_MS) return;
    drawnMs = nowMs;
    const line = [
      `${settled} of ${datasets} datasets`,
      `${formatBytes(bytes)} downloaded`,
      `${formatCount(rows)} rows written`,
      formatDuration(nowMs - startedMs),
      ...(newest === '' ? [] : [newest]),
    ].join(', ');
    stderr.write(`${ERASE_LINE}${line.slice(0, width - 1)}`);
  };
  return {
    read() {},
    started(count) {
      datasets = count;
      draw();
    },
    began(datasetId, what) {
      newest = `${printable(datasetId)}: ${what}`;
      draw();
    },
    downloaded(count) {
      bytes += count;
      draw();
    },
    committed(_datasetId, commit) {
      rows += rowsWritten(commit);
      draw();
    },
    settled() {
      settled += 1;
      draw();
    },
    end() {
      stderr.write(ERASE_LINE);
    },
  };
}

function rowsWritten({ rowCount, net }: Commit): number {
  return net === null ? rowCount : net.added + net.changed + net.removed;
}

function progressLog(log: Log): ProgressLine {
  return {
    read() {},
    started(datasets) {
      log.info({ datasets }, 'Catching up.');
    },
    began(dataset, what) {
      log.debug({ dataset, what }, 'Working.');
    },
    downloaded() {},
    committed(dataset, commit) {
      logCommit(log, dataset, commit);
    },
    settled(result) {
      logResult(log, result);
    },
    end() {},
  };
}

function logCommit(log: Log, dataset: string, commit: Commit): void {
  const { kind, fromVersion, toVersion: version, rowCount: rows, versions, net, bytes } = commit;
  const durationMs = Math.round(commit.durationMs);
  if (kind === 'snapshot') {
    log.info({ dataset, version, rows, bytes, durationMs }, 'Loaded a snapshot.');
  } else {
    log.info(
      { dataset, fromVersion, version, versions, ...net, rows, bytes, durationMs },
      'Applied changes.',
    );
  }
}

/** What was committed is told as it is committed. */
function logResult(log: Log, result: DatasetResult): void {
  const { datasetId: dataset } = result;
  switch (result.kind) {
    case 'updated':
      return;
    case 'current':
      log.debug({ dataset }, 'Nothing to do.');
      return;
    case 'retired':
      log.info({ dataset, table: result.table }, 'Retired: no subscription holds it any more.');
      return;
    case 'waiting':
      log.info({ dataset, why: result.why }, 'Waiting.');
      return;
    case 'held':
      log.warn({ dataset, code: result.hold.refusal.code }, 'Held: a person has to act.');
      return;
    case 'failed':
      log.error({ dataset, error: result.error.name, why: result.error.message }, 'Failed.');
      return;
  }
}
