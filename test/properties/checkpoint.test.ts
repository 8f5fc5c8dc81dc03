/** The checkpoint reads back what it stored: ids as they are, numbers exactly, texts within their limits. */

import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { openCheckpoint } from '../../src/checkpoint/sqlite/open.ts';
import { MAX_ID_CHARACTERS, MAX_LINKS, MAX_TEXT_CHARACTERS } from '../../src/checkpoint/sqlite/table.ts';
import { present } from '../../src/lib/assert.ts';
import { silentLog } from '../../src/lib/log.ts';
import { ContractViolationError } from '../../src/model/errors.ts';
import { NOON_CLOCK, position } from '../support/checkpoint-files.ts';
import { temporaryFolder } from '../support/duckdb-mirror.ts';
import { property } from './property.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let checkpoint: Checkpoint;
beforeAll(async () => {
  folder = await temporaryFolder();
  checkpoint = await openCheckpoint({
    path: `${folder.path}/checkpoint.sqlite`,
    uid: 1000,
    clock: NOON_CLOCK,
    log: silentLog,
  });
});
afterAll(async () => {
  checkpoint.close();
  await folder[Symbol.asyncDispose]();
});

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    '',
    '\0',
    'a\0b',
    "'; DROP TABLE desired_states; --",
    '😀'.repeat(MAX_TEXT_CHARACTERS / 2),
    `x${'😀'.repeat(MAX_TEXT_CHARACTERS)}`,
  ),
);
const id = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1 }),
  fc.constantFrom(
    '__proto__',
    ' ',
    'A',
    'a',
    'é',
    'é',
    'x'.repeat(MAX_ID_CHARACTERS),
    '😀'.repeat(MAX_ID_CHARACTERS / 2),
  ),
);
const number = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), fc.bigInt({ min: 0n, max: 9n }));
const version = fc.oneof(fc.maxSafeNat(), fc.nat(9));
const timestamp = fc.date({
  min: new Date('0001-01-01T00:00:00Z'),
  max: new Date('9999-12-31T23:59:59Z'),
  noInvalidDate: true,
});

/** A text for operators is stored whole, or as its beginning with a mark, and never with half a character. */
function expectKept(kept: string | null | undefined, given: string): void {
  if (given.length <= MAX_TEXT_CHARACTERS) {
    expect(kept).toBe(given);
    return;
  }
  expect(kept).toMatch(/…$/);
  expect(kept?.length).toBeLessThanOrEqual(MAX_TEXT_CHARACTERS);
  expect(kept?.isWellFormed()).toBe(true);
  expect(given.startsWith(kept?.slice(0, -2) ?? 'nothing')).toBe(true);
}

describe('positions and desired states', () => {
  property(
    'reads positions, members and reloads as they were stored',
    30,
    fc.property(
      fc.record({
        subscriptionId: id,
        datasetId: id,
        name: text,
        logNumber: fc.integer({ min: 1, max: 2 ** 31 }),
        event: number,
        cursorCreatedAt: fc.option(timestamp),
        at: timestamp,
        replayedAt: fc.option(timestamp),
        coveredUntil: fc.option(timestamp),
        version: fc.option(version),
        knownVersion: fc.option(version),
        isWithdrawal: fc.boolean(),
        reason: text,
      }),
      (step) => {
        const { subscriptionId, datasetId, event: eventNumber } = step;
        const cursor = { text: `evt_${eventNumber}`, number: eventNumber };
        const { logNumber, at, replayedAt, coveredUntil, knownVersion, isWithdrawal } = step;
        const common = {
          subscriptionId,
          subscriptionName: step.name,
          position: {
            logNumber,
            cursor,
            cursorCreatedAt: step.cursorCreatedAt,
            isExpiredCursorReplay: replayedAt !== null,
            coveredUntil,
            readAt: replayedAt ?? at,
          },
        };
        const asked = { logNumber, eventNumber, createdAt: at, readAt: at, knownVersion, isWithdrawal };
        checkpoint.commitFollowStep({
          ...common,
          changes: [
            { kind: 'member', datasetId, eventNumber, at, version: step.version },
            { kind: 'reload', datasetId, version: null, ...asked },
          ],
        });
        const { name, ...followed } = present(checkpoint.followed().get(subscriptionId), 'it is followed');
        expect(followed).toEqual({
          subscriptionId,
          logNumber,
          cursor,
          cursorCreatedAt: step.cursorCreatedAt,
          cursorAt: replayedAt ?? at,
          replayedAt,
          coveredUntil,
          statesLastEvent: false,
          auditedAt: null,
        });
        expectKept(name, step.name);
        const desired = checkpoint.desired(datasetId);
        expect(desired?.members.get(subscriptionId)).toEqual({
          eventNumber,
          since: at,
          announced: step.version,
        });
        expect(desired?.reloads).toEqual([{ subscriptionId, listedVersion: null, ...asked }]);
        expect(checkpoint.desiredStates().get(datasetId)).toEqual(desired);

        const drop = { kind: 'no-member' as const, datasetId, eventNumber: null, at, reason: step.reason };
        checkpoint.commitFollowStep({ ...common, changes: [drop] });
        expect(checkpoint.desired(datasetId)?.members).not.toContain(subscriptionId);
        expectKept(checkpoint.desired(datasetId)?.formerMembers.get(subscriptionId)?.reason, step.reason);
        // What one case leaves is not in the way of the next.
        checkpoint.forget(subscriptionId);
      },
    ),
  );

  property(
    'stores nothing of a step with an id that cannot be kept as it is',
    30,
    fc.property(fc.constantFrom('\ud800', `a\udfff`, 'x'.repeat(MAX_ID_CHARACTERS + 1)), id, (unfit, fit) => {
      const [before, followed] = [checkpoint.desiredStates(), checkpoint.followed()];
      const common = { subscriptionName: null, position: position(null) };
      const refresh = (datasetId: string) => ({ kind: 'refresh' as const, datasetId });
      const steps = [
        { ...common, subscriptionId: fit, changes: [refresh(fit), refresh(unfit)] },
        { ...common, subscriptionId: unfit, changes: [refresh(fit)] },
      ];
      for (const step of steps)
        expect(() => checkpoint.commitFollowStep(step)).toThrow(ContractViolationError);
      expect([checkpoint.desiredStates(), checkpoint.followed()]).toEqual([before, followed]);
    }),
  );
});

describe('failures and refusals', () => {
  property(
    'reads a failure as it was stored',
    30,
    fc.property(
      fc.record({
        datasetId: id,
        message: text,
        hint: fc.option(text),
        contents: fc.array(
          fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 8, maxLength: 32 }),
          { maxLength: 3 },
        ),
        differing: fc.array(
          fc.record({
            content: fc.constantFrom('version 3 (ab)', 'version 4 (cd)'),
            failedAt: timestamp,
            retryAt: timestamp,
          }),
          { maxLength: 3 },
        ),
        attempts: fc.nat(),
        failedAt: timestamp,
        retryAt: timestamp,
      }),
      (failure) => {
        checkpoint.fail({ ...failure, error: 'data_invalid' });
        const { message, hint, ...rest } = checkpoint.failure(failure.datasetId) ?? {
          message: null,
          hint: null,
        };
        const { message: _, hint: __, ...given } = failure;
        expect(rest).toEqual({ ...given, error: 'data_invalid' });
        expectKept(message, failure.message);
        if (failure.hint === null) expect(hint).toBeNull();
        else expectKept(hint, failure.hint);
        checkpoint.clearFailure(failure.datasetId);
        expect(checkpoint.failure(failure.datasetId)).toBeNull();
      },
    ),
  );

  property(
    'reads a refusal as it was stored, with its links in their order',
    30,
    fc.property(
      fc.record({
        subscriptionId: id,
        message: text,
        status: fc.option(fc.nat(599)),
        code: fc.option(text),
        suspendedAt: timestamp,
        links: fc.dictionary(text, text, { maxKeys: MAX_LINKS + 5 }),
      }),
      ({ subscriptionId, message, status, code, suspendedAt, links }) => {
        const scope = { kind: 'subscription' as const, subscriptionId };
        const refusal = {
          scope,
          operation: 'read events',
          status,
          code,
          message,
          links: new Map(Object.entries(links)),
        };
        checkpoint.suspend({ refusal, suspendedAt, keyHash: 'hash' });
        const [observed] = checkpoint.suspensions();
        expect(observed).toMatchObject({
          suspendedAt,
          keyHash: 'hash',
          refusal: { scope, operation: 'read events', status },
        });
        expectKept(observed?.refusal.message, message);
        if (code !== null) expectKept(observed?.refusal.code, code);
        const kept = [...refusal.links].filter(
          ([name, link]) => name.length + link.length <= MAX_TEXT_CHARACTERS,
        );
        expect([...(observed?.refusal.links ?? [])]).toEqual(kept.slice(0, MAX_LINKS));
        expect(checkpoint.lift(scope)).toBe(true);
        expect(checkpoint.suspensions()).toEqual([]);
      },
    ),
  );
});
