/** Between two write sessions the mirror is left to readers. */

import { expect, it } from 'vitest';
import { manualClock, mirrorIn, temporaryFolder } from '../support/duckdb-mirror.ts';

function enrolment(datasetId: string) {
  const none = { subscriptionIds: [], forgottenSubscriptionIds: [] };
  return { origin: 'https://feed.example', ...none, datasetIds: [datasetId] };
}

it('delays a write session that follows another at once, and no reading or later session', async () => {
  await using folder = await temporaryFolder();
  const clock = manualClock();
  const mirror = await mirrorIn(folder.path, { clock, readerGraceMs: 50 });
  await mirror.enroll(enrolment('parcels'));
  await mirror.has();
  expect(clock.slept).toEqual([]);
  await mirror.enroll(enrolment('permits'));
  expect(clock.slept).toEqual([50]);
  await clock.sleep(50);
  await mirror.enroll(enrolment('zoning'));
  expect(clock.slept).toEqual([50, 50]);
  await mirror.close();
});
