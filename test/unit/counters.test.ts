/** The table at the end of a run of random histories: what never occurred fails a whole run. */

import { describe, expect, it } from 'vitest';
import { Counters, missing, sum } from '../simulation/counters.ts';
import { HISTORIES_OF_A_WHOLE_RUN, report } from '../simulation/counts-reporter.ts';

function counted(...names: readonly string[]) {
  const counters = new Counters();
  for (const name of ['publish', 'resync']) counters.add(name, 0);
  for (const name of names) counters.add(name);
  return counters.counts();
}

describe('the counters of histories', () => {
  it('sums the counters of all histories', () => {
    const total = sum([counted('publish'), counted('publish', 'resync'), counted()]);
    expect(total).toEqual({ publish: 2, resync: 1 });
    expect(missing(['publish', 'removal'], total)).toEqual(['removal']);
  });

  it('fails a whole run in which something never occurred, and names it', () => {
    const histories = Array(HISTORIES_OF_A_WHOLE_RUN).fill(counted('publish'));
    const reported = report(histories, [100, 300]);
    expect(reported.isFailed).toBe(true);
    expect(reported.text).toMatch(
      /Of 200 random histories \(200 ms each, the longest 300 ms\):\n {2}publish +200\n/,
    );
    expect(reported.text).toMatch(/Never occurred, so nothing was shown of it:\n {2}resync$/);
    expect(report([...histories, counted('resync')], [100]).isFailed).toBe(false);
  });

  it('does not fail a run of a few histories', () => {
    expect(report([counted('publish')], [100])).toMatchObject({ isFailed: false });
  });
});
