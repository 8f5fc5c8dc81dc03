/**
 * A process that commits follow steps until it is killed. Step n sets the cursor to event n and desires version n, so
 * whatever it was doing when it died, the two must be equal. Prints each number that is committed.
 */

import { openCheckpoint } from '../../src/checkpoint/sqlite/open.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';

const path = present(process.argv[2], 'the path of the checkpoint is given');
const checkpoint = await openCheckpoint({ path, uid: null, clock: systemClock, log: silentLog });
const MEMBER = { kind: 'member', eventNumber: 0n, at: new Date(0), version: null } as const;
const start = checkpoint.followed().get('sub')?.cursor?.number ?? 0n;

for (let number = start + 1n; ; number += 1n) {
  checkpoint.commitFollowStep({
    subscriptionId: 'sub',
    subscriptionName: null,
    position: {
      logNumber: 1,
      cursor: { text: `evt_${number}`, number },
      cursorCreatedAt: null,
      isExpiredCursorReplay: false,
      coveredUntil: null,
      readAt: new Date(Number(number)),
    },
    changes: [
      ...['first', 'second', 'last'].map((datasetId) => ({ ...MEMBER, datasetId })),
      { kind: 'at-least', datasetId: 'first', version: Number(number), eventNumber: number },
      {
        kind: 'reload',
        datasetId: 'second',
        version: null,
        logNumber: 1,
        eventNumber: number,
        createdAt: new Date(Number(number)),
        readAt: new Date(Number(number)),
        knownVersion: null,
        isWithdrawal: false,
      },
      { kind: 'at-least', datasetId: 'last', version: Number(number), eventNumber: number },
    ],
  });
  process.stdout.write(`${number}\n`);
}
