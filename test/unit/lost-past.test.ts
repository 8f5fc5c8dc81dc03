/** What an operator is told of a past that is not known any more, although it is kept: once, with the reason and what to do. */

import { expect, it } from 'vitest';
import { judgeHistory } from '../../src/cli/doctor/content.ts';
import type { PastLog } from '../../src/destination/reader.ts';
import { lostBy, SWITCHED_OFF, TOO_LITTLE_MEMORY } from '../../src/model/lost-past.ts';

const OPEN = { commitNumber: null, reason: null };
const OFF = { commitNumber: 3, reason: SWITCHED_OFF };

it('a commit that closes the log has lost the past before it, and one that leaves the log as it was has not', () => {
  expect(lostBy(OPEN, OFF)).toBe(SWITCHED_OFF);
  expect(lostBy(OFF, OFF)).toBeNull();
  expect(lostBy(OPEN, OPEN)).toBeNull();
  expect(lostBy(null, OFF)).toBeNull();
  expect(lostBy(OPEN, null)).toBeNull();
});

it('while history is switched off, only the first commit loses something; whatever else closes a log again loses it again', () => {
  expect(lostBy(OFF, { commitNumber: 4, reason: SWITCHED_OFF })).toBeNull();
  expect(lostBy(OFF, { commitNumber: 4, reason: TOO_LITTLE_MEMORY })).toBe(TOO_LITTLE_MEMORY);
  const memory = { commitNumber: 4, reason: TOO_LITTLE_MEMORY };
  expect(lostBy(memory, { ...memory, commitNumber: 5 })).toBe(TOO_LITTLE_MEMORY);
});

it('doctor names each reason once with its datasets and what to do, of chosen datasets alone', () => {
  const log = (datasetId: string, changed: Partial<PastLog>): PastLog => ({
    datasetId,
    tableName: datasetId,
    logName: datasetId,
    firstCommit: 12,
    firstTime: new Date(0),
    closedReason: null,
    frozenCommit: null,
    frozenTime: null,
    isKept: false,
    source: `main.${datasetId}`,
    rowCount: 0,
    ...changed,
  });
  const closed = { closedReason: TOO_LITTLE_MEMORY };
  const logs = [
    log('parcels', closed),
    log('roads', closed),
    log('zoning', {}),
    log('left-out', closed),
    log('parcels', { ...closed, frozenCommit: 9 }),
  ];
  const findings = judgeHistory({ datasets: new Map() }, logs, ['parcels', 'roads', 'zoning']);
  expect(findings).toMatchObject([
    {
      state: 'warning',
      found:
        'Not known: parcels before commit 12, roads before commit 12. Comparing the rows of the table needed more memory than duckdb.memoryLimit allows.',
      hints: [expect.stringMatching(/^Raise duckdb\.memoryLimit/)],
    },
  ]);
  expect(judgeHistory({ datasets: new Map() }, logs, [])).toEqual([]);
});
