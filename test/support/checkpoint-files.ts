/** Checkpoints in folders of their own, and values to fill them with. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Checkpoint, Failure, Hold } from '../../src/checkpoint/checkpoint.ts';
import { openCheckpoint } from '../../src/checkpoint/sqlite/open.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { type Log, silentLog } from '../../src/lib/log.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import type { EventId } from '../../src/model/event.ts';
import type { WantChange } from '../../src/model/want.ts';

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

export function commit(checkpoint: Checkpoint, subscriptionId: string, ...changes: WantChange[]): void {
  checkpoint.commitFollowStep({
    subscriptionId,
    subscriptionName: null,
    cursor: null,
    isQuiet: false,
    changes,
  });
}

export function holdOf(scope: RefusalScope, message = 'no'): Hold {
  const links = new Map([['settings', 'https://app.example/settings']]);
  const refusal = {
    scope,
    operation: 'list versions',
    status: 403,
    code: 'outside_coverage',
    message,
    links,
  };
  return { refusal, heldAt: NOON, keyHash: 'hash-of-the-key' };
}

export function failureOf(datasetId: string, changed: Partial<Failure> = {}): Failure {
  return {
    datasetId,
    error: 'DataError',
    message: 'row 3 has no key',
    hint: null,
    contents: ['digest'],
    attempts: 1,
    failedAt: NOON,
    retryAt: new Date(NOON.getTime() + 60_000),
    ...changed,
  };
}
