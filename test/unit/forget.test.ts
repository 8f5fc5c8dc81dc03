/** Only subscriptions that are suspended as missing can be forgotten. For any other, the error states its condition. */

import { expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { giveUp } from '../../src/cli/commands/forget.ts';
import { UsageError } from '../../src/model/errors.ts';
import { commit, joined, openNew, suspensionOf } from '../support/checkpoint-files.ts';

async function filled(): Promise<Checkpoint> {
  const checkpoint = await openNew();
  for (const id of ['there', 'refused', 'gone']) commit(checkpoint, id, joined('parcels'));
  checkpoint.suspend(suspensionOf({ kind: 'subscription', subscriptionId: 'refused' }));
  for (const subscriptionId of ['gone', 'never-followed']) {
    const { refusal, ...suspension } = suspensionOf({ kind: 'subscription', subscriptionId });
    checkpoint.suspend({
      ...suspension,
      refusal: { ...refusal, status: null, code: 'subscription_missing' },
    });
  }
  checkpoint.forget('forgotten');
  return checkpoint;
}

it.each([
  ['there', 'Subscription there is not missing: it was there at the last catch-up.'],
  [
    'refused',
    'Subscription refused is not suspended as missing: the service refuses it (403 outside_coverage).',
  ],
  ['forgotten', 'Subscription forgotten is forgotten already.'],
  ['theer', 'No such subscription is followed here: theer (the nearest is there).'],
])('refuses to forget the subscription %s, and with it every other one', async (id, message) => {
  const checkpoint = await filled();
  const given = expect(() => giveUp(checkpoint, ['gone', id]));
  given.toThrow(UsageError);
  given.toThrow(message);
  expect(checkpoint.forgotten()).toEqual(['forgotten']);
  expect(checkpoint.followed().has('gone')).toBe(true);
});

it('forgets a subscription that only the mirror names', async () => {
  const checkpoint = await filled();
  expect(giveUp(checkpoint, ['never-followed'])).toBe(
    'Forgotten: subscription never-followed.\nIt contained no dataset.',
  );
  expect(checkpoint.forgotten()).toContain('never-followed');
});
