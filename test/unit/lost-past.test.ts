/** A past that is lost although history is kept: reported once, with the reason and the remedy. */

import { expect, it } from 'vitest';
import { judgeHistory } from '../../src/cli/doctor/content.ts';
import type { PastLog } from '../../src/destination/reader.ts';
import { lostBy, SWITCHED_OFF, TOO_LITTLE_MEMORY } from '../../src/model/lost-past.ts';

const OPEN = { commitNumber: null, reason: null };
const OFF = { commitNumber: 3, reason: SWITCHED_OFF };

it('reports the lost past of a commit that closes the undo log, and none where the log stays as it was', () => {
  expect(lostBy(OPEN, OFF)).toBe(SWITCHED_OFF);
  expect(lostBy(OFF, OFF)).toBeNull();
  expect(lostBy(OPEN, OPEN)).toBeNull();
  expect(lostBy(null, OFF)).toBeNull();
  expect(lostBy(OPEN, null)).toBeNull();
});

it('reports a lost past once while history is switched off, and each time another reason closes the log', () => {
  expect(lostBy(OFF, { commitNumber: 4, reason: SWITCHED_OFF })).toBeNull();
  expect(lostBy(OFF, { commitNumber: 4, reason: TOO_LITTLE_MEMORY })).toBe(TOO_LITTLE_MEMORY);
  const memory = { commitNumber: 4, reason: TOO_LITTLE_MEMORY };
  expect(lostBy(memory, { ...memory, commitNumber: 5 })).toBe(TOO_LITTLE_MEMORY);
});

it('names each reason for a lost past once in doctor, with its chosen datasets and the remedy', () => {
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
