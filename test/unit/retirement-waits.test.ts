/** The waits of a table's retirement, in words for people, and the commands that end them. */

import { describe, expect, it } from 'vitest';
import { type LogFields, silentLog } from '../../src/lib/log.ts';
import type { AwaitedSubscription } from '../../src/sync/plan/retirement.ts';
import { logWaiting } from '../../src/sync/progress.ts';
import { waiting } from '../../src/sync/result.ts';
import { awaitsOperator, reportAwaited, retirementWaits, waysToEnd } from '../../src/sync/retirements.ts';
import { documentedLog } from '../support/documented-lines.ts';
import { refusal, suspension } from '../support/sync-values.ts';

function suspended(subscriptionId: string): AwaitedSubscription {
  return {
    subscriptionId,
    reason: 'suspended',
    ofSubscription: suspension({ kind: 'subscription', subscriptionId }),
  };
}

function missing(subscriptionId: string): AwaitedSubscription {
  const scope = { kind: 'subscription', subscriptionId } as const;
  const ours = refusal(scope, { status: null, code: 'subscription_missing', links: new Map() }).refusal;
  return { subscriptionId, reason: 'suspended', ofSubscription: { ...suspension(scope), refusal: ours } };
}

const unread = (subscriptionId: string): AwaitedSubscription => ({ subscriptionId, reason: 'log-unread' });
const naming = (subscriptionId: string): AwaitedSubscription => ({
  subscriptionId,
  reason: 'record-names-dataset',
});

describe('a table whose retirement waits', () => {
  it.each<readonly [string, readonly AwaitedSubscription[]]>([
    ['for subscription sub_2, which is suspended', [suspended('sub_2')]],
    ['for subscription sub_2, whose log was not read to its end since the dataset left', [unread('sub_2')]],
    ['for subscription sub_2, whose record names the dataset or named it lately', [naming('sub_2')]],
    [
      'for subscription sub_2, whose log may have restarted',
      [{ subscriptionId: 'sub_2', reason: 'log-in-doubt' }],
    ],
    [
      'for subscriptions sub_1, sub_3, which are suspended, and for subscription sub_2, whose record names the dataset or named it lately',
      [suspended('sub_1'), naming('sub_2'), suspended('sub_3')],
    ],
    [
      'for subscriptions a, b, c, d, e and 2 more, whose logs were not read to their ends since the dataset left',
      ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map(unread),
    ],
    ['for subscription a\\u001b[2J, which is suspended', [suspended('a\u001b[2J')]],
  ])('W16 says that the retirement waits %s', (words, awaited) => {
    expect(reportAwaited(awaited)).toBe(words);
    expect(retirementWaits(awaited)).toEqual({
      kind: 'waiting',
      why: `no subscription contains it any more; its retirement waits ${words}`,
      until: null,
      awaited,
    });
  });

  it('names resume for a refused subscription, and also forget for a missing one', () => {
    expect(waysToEnd([unread('sub_1'), suspended('sub_2'), naming('sub_4'), missing('my sub')])).toEqual([
      'Once you have acted on it: feed-sync resume --subscription sub_2',
      "When it is there again: feed-sync resume --subscription 'my sub'",
      "To give it up, and retire what only it contains: feed-sync forget --subscription 'my sub'",
    ]);
  });

  it('waits for an operator where every subscription that it waits for is suspended', () => {
    const isForOperator = (awaited: readonly AwaitedSubscription[]): boolean => awaitsOperator({ awaited });
    expect(isForOperator([suspended('sub_1'), missing('sub_2')])).toBe(true);
    expect(isForOperator([suspended('sub_1'), unread('sub_2')])).toBe(false);
    expect(isForOperator([naming('sub_1')])).toBe(false);
    expect(isForOperator([])).toBe(false);
  });

  it('logs the subscriptions that a retirement waits for with hints, and other waits without', () => {
    const lines: LogFields[] = [];
    const log = documentedLog({ ...silentLog, info: (fields) => void lines.push(fields) });
    const result = retirementWaits([missing('sub_2'), unread('sub_3')]);
    logWaiting(log, 'parcels', result);
    logWaiting(log, 'permits', waiting('the manifest lags'));
    expect(lines).toEqual([
      {
        dataset: 'parcels',
        why: result.why,
        subscriptions: ['sub_2', 'sub_3'],
        hints: [
          'When it is there again: feed-sync resume --subscription sub_2',
          'To give it up, and retire what only it contains: feed-sync forget --subscription sub_2',
        ],
      },
      { dataset: 'permits', why: 'the manifest lags' },
    ]);
  });
});
