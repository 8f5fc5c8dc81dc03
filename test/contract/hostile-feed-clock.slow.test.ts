/** The clock of the machine is set by an hour or a day: what is measured between answers goes by service time. */

import { expect, it } from 'vitest';
import { HOUR_MS, hostileFeed, MINUTE_MS } from '../support/hostile-feed.ts';

const JUMPS_MS = [-24 * HOUR_MS, -HOUR_MS, HOUR_MS, 24 * HOUR_MS];

for (const byMs of JUMPS_MS) {
  const by = `${byMs / HOUR_MS} hours`;

  it(`F52 waits fifteen minutes for a manifest that lags, neither less nor more where the clock is set by ${by}`, async () => {
    const one = await hostileFeed({
      subscriptions: { sub_1: ['x'] },
      contract: { manifestLastEventId: false },
    });
    await one.once();
    one.feed.manifest.freeze();
    one.pass(MINUTE_MS);
    one.replace('x');
    const waiting = { exitCode: 75, kinds: { x: 'waiting' } };
    expect(await one.once()).toMatchObject({ ...waiting, untilMinutes: 15 });
    one.jump(byMs);
    expect(await one.once()).toMatchObject({ ...waiting, untilMinutes: 15 });
    one.pass(14 * MINUTE_MS);
    expect(await one.once()).toMatchObject({ ...waiting, untilMinutes: 1 });
    one.feed.manifest.thaw();
    one.jump(-byMs);
    one.pass(2 * MINUTE_MS);
    expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'loaded' } });
    await one.expectRightInTheEnd();
  });

  it(`F52 confirms an absence neither sooner nor later where the clock is set by ${by}`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x', 'y'] } });
    await one.once();
    one.feed.publisher.remove('x', 'left_coverage', { announce: false });
    expect((await one.once()).kinds).toEqual({ x: 'current', y: 'current' });
    one.jump(byMs);
    one.pass(9 * MINUTE_MS);
    expect((await one.once()).kinds).toEqual({ x: 'current', y: 'current' });
    one.jump(byMs);
    one.pass(MINUTE_MS);
    expect((await one.once()).kinds).toEqual({ x: 'retired', y: 'current' });
    await one.expectRightInTheEnd();
  });

  it(`F52 waits an hour of service time for a withdrawn version where the clock is set by ${by}`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x'] } });
    await one.once();
    one.publish('x');
    one.feed.publisher.withdraw('x');
    expect(await one.once()).toMatchObject({ exitCode: 75, untilMinutes: 60 });
    one.jump(byMs);
    one.pass(59 * MINUTE_MS);
    expect(await one.once()).toMatchObject({ exitCode: 75, untilMinutes: 1 });
    one.pass(MINUTE_MS);
    expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'current' } });
    await one.expectRightInTheEnd();
  });
}
