/** The lookup of suspensions: the suspensions that apply, and the one of a dataset. */

import { describe, expect, it } from 'vitest';
import type { Suspension } from '../../src/checkpoint/checkpoint.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import { suspensionsAmong } from '../../src/sync/suspensions.ts';
import { desired, membersAt, suspension } from '../support/sync-values.ts';

const KEY_HASH = 'key/base-url';

function suspended(scope: RefusalScope, keyHash = KEY_HASH): Suspension {
  return { ...suspension(scope), keyHash };
}

const ofSubscription = (subscriptionId: string) => suspended({ kind: 'subscription', subscriptionId });
const ofParcels = suspended({ kind: 'dataset', datasetId: 'parcels' });

describe('a suspension of the workspace', () => {
  const scope = { kind: 'workspace' } as const;

  it.each<[string, string | null, string, boolean]>([
    ['applies to the key and the base URL that were refused', KEY_HASH, KEY_HASH, true],
    ['does not apply to another key', 'other/base-url', KEY_HASH, false],
    ['does not apply to another base URL', 'key/other', KEY_HASH, false],
    ['applies to every base URL where it names none', 'key/other', 'key', true],
    ['applies where the key is unknown', null, KEY_HASH, true],
  ])('%s', (_title, keyHash, storedHash, stands) => {
    const stored = [suspended(scope, storedHash), ofParcels];
    const { all, workspace } = suspensionsAmong(stored, keyHash, []);
    expect(workspace).toBe(stands ? stored[0] : null);
    expect(all).toEqual(stands ? stored : [ofParcels]);
  });
});

describe('the suspension of a dataset', () => {
  const parcels = desired({ datasetId: 'parcels', members: membersAt('sub_1', 'sub_2') });

  it("prefers the dataset's own suspension", () => {
    const stored = [ofSubscription('sub_1'), ofSubscription('sub_2'), ofParcels];
    expect(suspensionsAmong(stored, KEY_HASH, []).concerning(parcels)).toBe(ofParcels);
  });

  it('takes that of a subscription where every subscription of the dataset is suspended', () => {
    const [first, second] = [ofSubscription('sub_1'), ofSubscription('sub_2')];
    expect(suspensionsAmong([first, second], KEY_HASH, []).concerning(parcels)).toBe(first);
    expect(suspensionsAmong([first], KEY_HASH, []).concerning(parcels)).toBeNull();
  });

  it('finds no suspension where no subscription contains the dataset', () => {
    const dropped = desired({ datasetId: 'parcels', members: new Map() });
    expect(suspensionsAmong([ofSubscription('sub_1')], KEY_HASH, []).concerning(dropped)).toBeNull();
  });
});
