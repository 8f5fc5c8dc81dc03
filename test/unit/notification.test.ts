/** The notifications of an operator: transitions, each cause once an hour, across restarts. */

import { describe, expect, it } from 'vitest';
import {
  CAUSE_PAUSE_MS,
  type Condition,
  EMPTY_LEDGER,
  MAX_CAUSES_AN_HOUR,
  MAX_ITEMS,
  type NotificationLedger,
  nextNotification,
  type Occurrence,
  withOccurrences,
  withoutEnded,
} from '../../src/model/notification.ts';

const START = Date.parse('2026-01-01T00:00:00Z');
const MINUTE_MS = 60_000;

function condition(cause: string, subject: string, changes: Partial<Condition> = {}): Condition {
  const text = 'words';
  return { kind: 'suspended', cause, key: subject, subject, text, advice: 'act', isLoud: true, ...changes };
}

function occurrence(kind: Occurrence['kind'], subject: string): Occurrence {
  return { kind, subject, text: 'words' };
}

/** The titles that a receiver got, by minute. Each evaluation is that of a process that has just been started. */
function receiver() {
  const titles: string[] = [];
  let stored = JSON.stringify(EMPTY_LEDGER);
  return {
    titles,
    evaluate(
      minute: number,
      conditions: readonly Condition[],
      { isComplete = true, occurrences = [] as readonly Occurrence[] } = {},
    ) {
      let ledger: NotificationLedger = withOccurrences(JSON.parse(stored), occurrences);
      if (isComplete) ledger = withoutEnded(ledger, conditions);
      for (;;) {
        const now = new Date(START + minute * MINUTE_MS);
        const due = nextNotification(ledger, conditions, now, isComplete);
        if (due === null) break;
        titles.push(`${minute}: ${due.notification.title}`);
        ledger = due.after;
      }
      stored = JSON.stringify(ledger);
    },
  };
}

describe('a condition', () => {
  it('notifies of the start and the end of a condition, and not in between, across restarts', () => {
    const { titles, evaluate } = receiver();
    const refused = condition('no_credits', 'dataset a');
    for (const minute of [0, 1, 59, 61, 600]) evaluate(minute, [refused]);
    evaluate(601, []);
    evaluate(602, []);
    expect(titles).toEqual(['0: Suspended: dataset a (no_credits)', '601: Over: suspended (no_credits)']);
  });

  it('notifies once of a condition of three thousand datasets, naming some and counting all', () => {
    const conditions = Array.from({ length: 3_000 }, (_, index) =>
      condition('no_credits', `dataset ${index}`),
    );
    const due = nextNotification(EMPTY_LEDGER, conditions, new Date(START), true);
    expect(due?.notification).toMatchObject({
      title: 'Suspended: dataset 0 and 2,999 more (no_credits)',
      count: 3_000,
    });
    expect(due?.notification.items).toHaveLength(MAX_ITEMS);
    expect(nextNotification(due?.after ?? EMPTY_LEDGER, conditions, new Date(START), true)).toBeNull();
  });

  it('notifies of further datasets alone, an hour after the last notification of their cause', () => {
    const { titles, evaluate } = receiver();
    const [a, b, c] = ['a', 'b', 'c'].map((id) => condition('no_credits', `dataset ${id}`));
    if (a === undefined || b === undefined || c === undefined) throw new Error('there are three');
    evaluate(0, [a]);
    evaluate(10, [a, b]);
    evaluate(20, [a, b, c]);
    evaluate(59, [a, b, c]);
    expect(titles).toHaveLength(1);
    evaluate(60, [a, b, c]);
    expect(titles.slice(1)).toEqual(['60: Suspended: dataset b and 1 more (no_credits)']);
  });

  it('notifies of a condition that starts and ends all the time once an hour, with its end', () => {
    const { titles, evaluate } = receiver();
    for (let minute = 0; minute < 120; minute += 1) {
      evaluate(
        minute,
        minute % 2 === 0 ? [condition('service_unavailable', 'service', { kind: 'failing' })] : [],
      );
    }
    expect(titles).toEqual([
      '0: Failing: service (service_unavailable)',
      '1: Over: failing (service_unavailable)',
      '60: Failing: service (service_unavailable)',
      '61: Over: failing (service_unavailable)',
    ]);
  });

  it('notifies again of a condition that returns while others of its cause last', () => {
    const { titles, evaluate } = receiver();
    const [a, b] = [condition('no_credits', 'dataset a'), condition('no_credits', 'dataset b')];
    evaluate(0, [a, b]);
    evaluate(10, [b]);
    evaluate(90, [a, b]);
    expect(titles[1]).toBe('90: Suspended: dataset a (no_credits)');
  });

  it('reports no end of a cause while a condition of it lasts that was not notified yet', () => {
    const { titles, evaluate } = receiver();
    const [a, b] = [condition('no_credits', 'dataset a'), condition('no_credits', 'dataset b')];
    evaluate(0, [a]);
    evaluate(10, [b]);
    expect(titles).toEqual(['0: Suspended: dataset a (no_credits)']);
    evaluate(60, [b]);
    evaluate(70, []);
    expect(titles.slice(1)).toEqual([
      '60: Suspended: dataset b (no_credits)',
      '70: Over: suspended (no_credits)',
    ]);
  });

  it('notifies of a condition only once it is loud, and reports no end while it is quiet', () => {
    const { titles, evaluate } = receiver();
    const young = condition('service_unavailable', 'service', { kind: 'failing', isLoud: false });
    evaluate(0, [young]);
    expect(titles).toEqual([]);
    evaluate(5, [{ ...young, isLoud: true }]);
    evaluate(6, [young]);
    expect(titles).toEqual(['5: Failing: service (service_unavailable)']);
  });

  it('reports no end of a condition that a process that was just started has not met yet', () => {
    const { titles, evaluate } = receiver();
    evaluate(0, [condition('service_unavailable', 'service')]);
    evaluate(1, [], { isComplete: false });
    expect(titles).toHaveLength(1);
    evaluate(2, []);
    expect(titles).toHaveLength(2);
  });

  it('notifies of a condition where the clock was set back since', () => {
    const { titles, evaluate } = receiver();
    evaluate(0, [condition('no_credits', 'dataset a')]);
    evaluate(-600, [condition('no_credits', 'dataset a'), condition('no_credits', 'dataset b')]);
    expect(titles[1]).toBe('-600: Suspended: dataset b (no_credits)');
  });
});

describe('an occurrence', () => {
  it('notifies once of an occurrence, together with those of the same hour, across restarts', () => {
    const { titles, evaluate } = receiver();
    evaluate(0, [], { occurrences: [occurrence('schema_changed', 'dataset a')] });
    evaluate(10, [], { occurrences: [occurrence('schema_changed', 'dataset b')] });
    evaluate(20, [], {
      occurrences: [occurrence('schema_changed', 'dataset c'), occurrence('damaged', 'table t')],
    });
    evaluate(59, []);
    evaluate(60, []);
    evaluate(200, []);
    expect(titles).toEqual([
      '0: Schema changed: dataset a',
      '20: Damaged: table t',
      '60: Schema changed: dataset b and 1 more',
    ]);
  });
});

it('bounds the notifications of an hour where a service invents a code for each refusal', () => {
  const { titles, evaluate } = receiver();
  const codes = Array.from({ length: 500 }, (_, index) => condition(`code_${index}`, `dataset ${index}`));
  evaluate(0, codes);
  evaluate(30, codes);
  expect(titles).toHaveLength(MAX_CAUSES_AN_HOUR);
  evaluate(CAUSE_PAUSE_MS / MINUTE_MS, codes);
  expect(titles).toHaveLength(2 * MAX_CAUSES_AN_HOUR);
});

it('treats a code with white space in it as any other cause', () => {
  const { titles, evaluate } = receiver();
  evaluate(0, [condition('no credits\nleft', 'dataset a')]);
  evaluate(1, []);
  expect(titles[1]).toBe('1: Over: suspended (no_credits_left)');
});
