/** Checkpoints in folders of their own, and values to fill them with. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Checkpoint, Failure, Followed, Suspension } from '../../src/checkpoint/checkpoint.ts';
import { openCheckpoint } from '../../src/checkpoint/sqlite/open.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { type Log, silentLog } from '../../src/lib/log.ts';
import type { DesiredStateChange, LogPosition } from '../../src/model/desired-state.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import type { EventId } from '../../src/model/event.ts';
import { LONG_AGO } from './sync-values.ts';

export const NOON = new Date('2026-03-01T12:00:00.000Z');
export const NOON_CLOCK: Clock = { ...systemClock, now: () => NOON };

/** A path in a new folder that is removed with the test. */
export function temporaryPath(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-checkpoint-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, name);
}

/** Opens the checkpoint; it is closed with the test where the test has not done so. */
export async function openAt(path: string, log: Log = silentLog, clock = NOON_CLOCK): Promise<Checkpoint> {
  const checkpoint = await openCheckpoint({ path, uid: 1000, clock, log });
  onTestFinished(() => checkpoint.close());
  return checkpoint;
}

export function openNew(): Promise<Checkpoint> {
  return openAt(temporaryPath('checkpoint.sqlite'));
}

export function event(number: bigint): EventId {
  return { text: `evt_${number}`, number };
}

export function position(cursor: EventId | null, changed: Partial<LogPosition> = {}): LogPosition {
  return {
    logNumber: 1,
    cursor,
    cursorCreatedAt: null,
    isExpiredCursorReplay: false,
    coveredUntil: null,
    readAt: NOON,
    ...changed,
  };
}

export function commit(
  checkpoint: Checkpoint,
  subscriptionId: string,
  ...changes: DesiredStateChange[]
): void {
  checkpoint.commitFollowStep({
    subscriptionId,
    subscriptionName: null,
    position: position(null),
    changes,
  });
}

type ChangeOf<Kind extends DesiredStateChange['kind']> = Extract<DesiredStateChange, { readonly kind: Kind }>;

/** The subscription contains the dataset, long since; no event says so. */
export function joined(datasetId: string, changed: Partial<ChangeOf<'member'>> = {}): ChangeOf<'member'> {
  return { kind: 'member', datasetId, eventNumber: null, at: LONG_AGO, version: null, ...changed };
}

/** The subscription contains it no more; no event says so. */
export function dropped(
  datasetId: string,
  changed: Partial<ChangeOf<'no-member'>> = {},
): ChangeOf<'no-member'> {
  return { kind: 'no-member', datasetId, eventNumber: null, at: LONG_AGO, reason: null, ...changed };
}

/** The event of this number asked for a reload, long ago. */
export function reloadAsked(
  datasetId: string,
  eventNumber: bigint,
  changed: Partial<ChangeOf<'reload'>> = {},
): ChangeOf<'reload'> {
  return {
    kind: 'reload',
    datasetId,
    version: null,
    logNumber: 1,
    eventNumber,
    createdAt: LONG_AGO,
    readAt: LONG_AGO,
    knownVersion: null,
    isWithdrawal: false,
    ...changed,
  };
}

/** The position in the log of a subscription, as the checkpoint states it. */
export function followedAt(cursor: EventId | null, changed: Partial<Followed> = {}): Followed {
  return {
    subscriptionId: 's',
    name: null,
    logNumber: 1,
    cursor,
    cursorCreatedAt: null,
    cursorAt: NOON,
    replayedAt: null,
    coveredUntil: null,
    statesLastEvent: false,
    auditedAt: null,
    ...changed,
  };
}

export function suspensionOf(scope: RefusalScope, message = 'no'): Suspension {
  const links = new Map([['settings', 'https://app.example/settings']]);
  const refusal = {
    scope,
    operation: 'list versions',
    status: 403,
    code: 'outside_coverage',
    message,
    links,
  };
  return { refusal, suspendedAt: NOON, keyHash: 'hash-of-the-key' };
}

export function failureOf(datasetId: string, changed: Partial<Failure> = {}): Failure {
  return {
    datasetId,
    error: 'data_invalid',
    message: 'row 3 has no key',
    hint: null,
    contents: ['digest'],
    differing: [],
    attempts: 1,
    failedAt: NOON,
    retryAt: new Date(NOON.getTime() + 60_000),
    ...changed,
  };
}
