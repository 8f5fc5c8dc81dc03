/**
 * Incidents: logged once when raised, louder as they last, and once when resolved. Further errors of the same incident are not
 * logged.
 */

import type { Suspension } from '../checkpoint/checkpoint.ts';
import type { Log } from '../lib/log.ts';
import { sourceStack } from '../lib/source-stack.ts';
import { ERRORS } from '../model/error-codes.ts';
import { errorCodeOf, FeedSyncError, ServiceUnavailableError } from '../model/errors.ts';
import { nameOfScope } from '../sync/suspensions.ts';
import type { OngoingIncident } from './state.ts';

/** An incident that may pass by itself becomes a warning after this. */
export const WARN_AFTER_MS = 5 * 60_000;
/** After this it is logged as an error. */
export const ERROR_AFTER_MS = 30 * 60_000;
/** An incident of the run as a whole that lasts so long is a stall, which health reports. */
const STALL_AFTER_MS = 15 * 60_000;

/** Incidents of the run as a whole: the disk, a mirror that a reader has locked, the checkpoint. */
export const RUN = 'run';

type Level = 'info' | 'warn' | 'error';

const LEVELS: readonly Level[] = ['info', 'warn', 'error'];

interface OngoingCondition {
  readonly of: string;
  readonly since: Date;
  readonly sinceMs: number;
  error: Error;
  attempts: number;
  reported: Level;
}

/** Returns the level of an error that has lasted so long. A bug is an error at once. */
export function loudness(error: Error, lastedMs: number): Level {
  if (!(error instanceof FeedSyncError) || lastedMs >= ERROR_AFTER_MS) return 'error';
  return ERRORS[error.code].disposition === 'stop' || lastedMs >= WARN_AFTER_MS ? 'warn' : 'info';
}

/** Names the owner of a dataset's incident. */
export function ofDataset(datasetId: string): string {
  return `dataset ${datasetId}`;
}

export function isOfDataset(of: string): boolean {
  return of.startsWith(ofDataset(''));
}

export class IncidentLog {
  readonly #log: Log;
  readonly #ongoing = new Map<string, OngoingCondition>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** `of` names the owner: `run`, `subscription sub_1`, `dataset parcels`. */
  raise(of: string, error: Error, now: Date, nowMs: number): void {
    // The client logs it once for all requests; there may be thousands of datasets.
    if (isThrottled(error) && isOfDataset(of)) return;
    const known = this.#ongoing.get(of);
    if (known === undefined || errorCodeOf(known.error) !== errorCodeOf(error)) {
      const since = known?.since ?? now;
      const sinceMs = known?.sinceMs ?? nowMs;
      const reported = loudness(error, nowMs - sinceMs);
      this.#ongoing.set(of, { of, since, sinceMs, error, attempts: (known?.attempts ?? 0) + 1, reported });
      if (!isThrottled(error)) this.#report(reported, of, error, nowMs - sinceMs);
      return;
    }
    known.error = error;
    known.attempts += 1;
  }

  /** Logs the incidents that have become louder by lasting. */
  escalate(nowMs: number): void {
    for (const ongoing of this.#ongoing.values()) {
      const lastedMs = nowMs - ongoing.sinceMs;
      const level = loudness(ongoing.error, lastedMs);
      if (LEVELS.indexOf(level) <= LEVELS.indexOf(ongoing.reported)) continue;
      ongoing.reported = level;
      this.#report(level, ongoing.of, ongoing.error, lastedMs);
    }
  }

  resolve(of: string, nowMs: number): void {
    const ongoing = this.#ongoing.get(of);
    if (ongoing === undefined) return;
    this.#ongoing.delete(of);
    const lastedMs = Math.round(nowMs - ongoing.sinceMs);
    // The end has at most the level warn: no alarm for good news.
    this.#log[ongoing.reported === 'info' ? 'info' : 'warn'](
      { of, error: errorCodeOf(ongoing.error), lastedMs },
      'Recovered.',
    );
  }

  /** Drops the incident without a line: its operation is not tried any more. */
  forget(of: string): void {
    this.#ongoing.delete(of);
  }

  isOngoing(of: string): boolean {
    return this.#ongoing.has(of);
  }

  /** The owners of the incidents that were logged as more than information. */
  loud(): ReadonlySet<string> {
    return new Set(
      [...this.#ongoing.values()].flatMap(({ of, reported }) => (reported === 'info' ? [] : [of])),
    );
  }

  /** The longest first. */
  ongoing(nowMs: number): readonly OngoingIncident[] {
    return [...this.#ongoing.values()]
      .sort((left, right) => left.sinceMs - right.sinceMs)
      .map(({ of, error, since, sinceMs, attempts }) => ({
        of,
        error: errorCodeOf(error),
        message: error.message,
        hint: error instanceof FeedSyncError ? error.hint : null,
        since,
        attempts,
        isStall: nowMs - sinceMs >= STALL_AFTER_MS,
      }));
  }

  #report(level: Level, of: string, error: Error, lastedMs: number): void {
    const hint = error instanceof FeedSyncError ? error.hint : null;
    const fields = {
      of,
      error: errorCodeOf(error),
      why: error.message,
      ...(hint === null ? {} : { hint }),
      ...(lastedMs === 0 ? {} : { lastedMs: Math.round(lastedMs) }),
      ...(error instanceof FeedSyncError ? {} : { stack: sourceStack(error) }),
    };
    this.#log[level](fields, lastedMs === 0 ? 'Failed; will be tried again.' : 'Still failing.');
  }
}

/** The client of the service logs this once for all requests. */
function isThrottled(error: Error): boolean {
  return error instanceof ServiceUnavailableError && error.isThrottled;
}

export class SuspensionLog {
  readonly #log: Log;
  #reported = new Map<string, Suspension>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** How many suspensions are ongoing. */
  get ongoing(): number {
    return this.#reported.size;
  }

  update(suspensions: readonly Suspension[]): void {
    const ongoing = new Map(
      suspensions.map((suspension) => [nameOfScope(suspension.refusal.scope), suspension]),
    );
    for (const [of, { refusal, suspendedAt }] of ongoing) {
      if (this.#reported.get(of)?.refusal.message === refusal.message) continue;
      const { operation, status, code, message, links } = refusal;
      const fields = {
        of,
        operation,
        status,
        ...(code === null ? {} : { code }),
        why: message,
        links: Object.fromEntries(links),
        since: suspendedAt,
      };
      this.#log.warn(fields, 'Suspended: an operator must act. See feed-sync status.');
    }
    for (const of of this.#reported.keys()) if (!ongoing.has(of)) this.#log.info({ of }, 'Resumed.');
    this.#reported = ongoing;
  }
}
