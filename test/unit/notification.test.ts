/** What an operator is notified of: transitions, each cause once an hour, across restarts. */

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

/** An operator's address, and what it was told, by minute. Each look is that of a process that has just been started. */
function told() {
  const titles: string[] = [];
  let stored = JSON.stringify(EMPTY_LEDGER);
  return {
    titles,
    look(
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
  it('is told when it begins and when it is over, and not in between, whatever is restarted', () => {
    const { titles, look } = told();
    const refused = condition('no_credits', 'dataset a');
    for (const minute of [0, 1, 59, 61, 600]) look(minute, [refused]);
    look(601, []);
    look(602, []);
    expect(titles).toEqual(['0: Suspended: dataset a (no_credits)', '601: Over: suspended (no_credits)']);
  });

  it('of three thousand datasets is one notification that names some and counts all', () => {
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

  it('that strikes further datasets is told of these alone, an hour after the last time', () => {
    const { titles, look } = told();
    const [a, b, c] = ['a', 'b', 'c'].map((id) => condition('no_credits', `dataset ${id}`));
    if (a === undefined || b === undefined || c === undefined) throw new Error('there are three');
    look(0, [a]);
    look(10, [a, b]);
    look(20, [a, b, c]);
    look(59, [a, b, c]);
    expect(titles).toHaveLength(1);
    look(60, [a, b, c]);
    expect(titles.slice(1)).toEqual(['60: Suspended: dataset b and 1 more (no_credits)']);
  });

  it('that comes and goes all the time is told once an hour, with its end', () => {
    const { titles, look } = told();
    for (let minute = 0; minute < 120; minute += 1) {
      look(
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

  it('that comes back while others of its cause last is told again', () => {
    const { titles, look } = told();
    const [a, b] = [condition('no_credits', 'dataset a'), condition('no_credits', 'dataset b')];
    look(0, [a, b]);
    look(10, [b]);
    look(90, [a, b]);
    expect(titles[1]).toBe('90: Suspended: dataset a (no_credits)');
  });

  it('is not over while one lasts that was not told yet, because the hour of its cause goes on', () => {
    const { titles, look } = told();
    const [a, b] = [condition('no_credits', 'dataset a'), condition('no_credits', 'dataset b')];
    look(0, [a]);
    look(10, [b]);
    expect(titles).toEqual(['0: Suspended: dataset a (no_credits)']);
    look(60, [b]);
    look(70, []);
    expect(titles.slice(1)).toEqual([
      '60: Suspended: dataset b (no_credits)',
      '70: Over: suspended (no_credits)',
    ]);
  });

  it('is told only once it is loud, and is not over while it is quiet', () => {
    const { titles, look } = told();
    const young = condition('service_unavailable', 'service', { kind: 'failing', isLoud: false });
    look(0, [young]);
    expect(titles).toEqual([]);
    look(5, [{ ...young, isLoud: true }]);
    look(6, [young]);
    expect(titles).toEqual(['5: Failing: service (service_unavailable)']);
  });

  it('is not over where a process that was just started has not met it yet', () => {
    const { titles, look } = told();
    look(0, [condition('service_unavailable', 'service')]);
    look(1, [], { isComplete: false });
    expect(titles).toHaveLength(1);
    look(2, []);
    expect(titles).toHaveLength(2);
  });

  it('is told where the clock was set back since', () => {
    const { titles, look } = told();
    look(0, [condition('no_credits', 'dataset a')]);
    look(-600, [condition('no_credits', 'dataset a'), condition('no_credits', 'dataset b')]);
    expect(titles[1]).toBe('-600: Suspended: dataset b (no_credits)');
  });
});

describe('an occurrence', () => {
  it('is told once; those of the same hour are told together, whatever is restarted', () => {
    const { titles, look } = told();
    look(0, [], { occurrences: [occurrence('schema_changed', 'dataset a')] });
    look(10, [], { occurrences: [occurrence('schema_changed', 'dataset b')] });
    look(20, [], {
      occurrences: [occurrence('schema_changed', 'dataset c'), occurrence('damaged', 'table t')],
    });
    look(59, []);
    look(60, []);
    look(200, []);
    expect(titles).toEqual([
      '0: Schema changed: dataset a',
      '20: Damaged: table t',
      '60: Schema changed: dataset b and 1 more',
    ]);
  });
});

it('a service that invents a code for each refusal gets no more than so many notifications an hour', () => {
  const { titles, look } = told();
  const codes = Array.from({ length: 500 }, (_, index) => condition(`code_${index}`, `dataset ${index}`));
  look(0, codes);
  look(30, codes);
  expect(titles).toHaveLength(MAX_CAUSES_AN_HOUR);
  look(CAUSE_PAUSE_MS / MINUTE_MS, codes);
  expect(titles).toHaveLength(2 * MAX_CAUSES_AN_HOUR);
});

it('a code with white space in it is a cause like any other', () => {
  const { titles, look } = told();
  look(0, [condition('no credits\nleft', 'dataset a')]);
  look(1, []);
  expect(titles[1]).toBe('1: Over: suspended (no_credits_left)');
});
