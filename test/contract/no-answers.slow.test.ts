/** F19 over the wire: answers of 200 that are none fail what they belong to, and no word of them is kept or logged. */

import { expect, it } from 'vitest';
import type { Operation } from '../../fixtures/feed/operations.ts';
import { summarize } from '../../src/cli/render/summary.ts';
import { ContractViolationError, ServiceUnavailableError } from '../../src/model/errors.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { impatientClock, testFeed } from '../support/feed-client.ts';
import { expectCalm, expectPublished, newestVersions } from '../support/oracle.ts';
import { publishNext, SERVED, withRealMirror } from '../support/served-world.ts';

const CANARY = 'words-of-a-body';
const ATTEMPTS = 3;

/** What is asked for, the list in its answer, whose it is, and what fails; null: the run as a whole. */
const SUBJECTS: readonly (readonly [Operation, string, object, string | null])[] = [
  ['subscriptions', 'subscriptions', {}, null],
  ['events', 'events', { subscriptionId: 'sub_1' }, 'sub_1'],
  ['manifest', 'datasets', { subscriptionId: 'sub_1' }, 'sub_1'],
  ['versions', 'versions', { datasetId: 'permits' }, 'permits'],
  ['schemas', 'schemas', { datasetId: 'permits' }, 'permits'],
  ['changes', 'changes', { datasetId: 'permits' }, 'permits'],
];

const HTML = `<!doctype html><title>${CANARY}</title>`;
const TRUNCATED = `{"subscriptions":[{"id":"${CANARY}`;

const NO_ANSWERS: readonly (readonly [string, (list: string) => string, boolean])[] = [
  ['HTML', () => HTML, false],
  ['truncated JSON', () => TRUNCATED, false],
  ['JSON of the wrong types', (list) => JSON.stringify({ [list]: CANARY, hasMore: false }), true],
];

function failuresOf({ datasets, incidents }: CatchUpResult) {
  return [
    ...datasets.flatMap((one) => (one.kind === 'failed' ? [{ of: one.datasetId, error: one.error }] : [])),
    ...incidents.map(({ subscriptionId, error }) => ({ of: subscriptionId, error })),
  ];
}

it.each(NO_ANSWERS)(
  'F19 an answer of 200 with %s fails what it belongs to, and no word of it is kept or logged',
  async (_, bodyFor, isViolation) => {
    const world = await withRealMirror();
    await world.catchUp();
    for (const [operation, list, of, fails] of SUBJECTS) {
      const before = newestVersions(world);
      for (const datasetId of SERVED) publishNext(world.feed, datasetId);
      const client = testFeed(world.feed.baseUrl, { clock: impatientClock() });
      Object.assign(world.parts, { feed: client.feed });
      const headers = { 'content-type': 'application/json' };
      const act = { kind: 'respond', status: 200, headers, body: bodyFor(list) } as const;
      const fault = world.feed.faults.add({ match: { operation, ...of, times: 'always' }, act });

      const result = await world.catchUp();
      const failures = failuresOf(result);
      expect(failures.map((failure) => failure.of)).toEqual([fails]);
      const error = failures[0]?.error;
      expect(fault.fired).toBe(isViolation ? 2 : ATTEMPTS);
      expect(error).toBeInstanceOf(isViolation ? ContractViolationError : ServiceUnavailableError);
      if (isViolation) {
        expect(error).toMatchObject({ path: list, message: expect.stringContaining(` at ${list}: `) });
      }
      const kept = [...world.checkpoint.failures().values()];
      for (const reported of [client.logged, world.logged, kept, summarize(result)]) {
        expect(JSON.stringify(reported)).not.toContain(CANARY);
      }
      await expectPublished(world, before);
      await expectCalm(world);
    }
  },
);
