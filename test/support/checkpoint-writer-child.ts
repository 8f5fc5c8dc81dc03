/**
 * A process that commits follow steps until it is killed. Step n sets the cursor to event n and wants version n, so
 * whatever it was doing when it died, the two must be equal. Prints each number that is committed.
 */

import { openCheckpoint } from '../../src/checkpoint/sqlite/open.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';

const path = present(process.argv[2], 'the path of the checkpoint is given');
const checkpoint = await openCheckpoint({ path, uid: null, clock: systemClock, log: silentLog });
const start = checkpoint.followed().get('sub')?.cursor?.number ?? 0n;

for (let number = start + 1n; ; number += 1n) {
  checkpoint.commitFollowStep({
    subscriptionId: 'sub',
    subscriptionName: null,
    cursor: { text: `evt_${number}`, number },
    isQuiet: false,
    changes: [
      { kind: 'at-least', datasetId: 'first', version: Number(number), eventNumber: number },
      { kind: 'reload', datasetId: 'second', version: null, eventNumber: number },
      { kind: 'at-least', datasetId: 'last', version: Number(number), eventNumber: number },
    ],
  });
  process.stdout.write(`${number}\n`);
}
