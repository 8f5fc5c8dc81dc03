/** The next catch-up does what the operator decided: resyncs, approved retirements, forgotten subscriptions. */

import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';

/** After so long a second list that lacks a subscription confirms that it is gone. */
const CONFIRMED_AFTER_MS = 10 * 60_000;

describe('resync', () => {
  it('resync makes the next once load the snapshot again, though the table is up to date', async () => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['permits', 'parcels'] });
    const permits = datasetOf('permits');
    const installed = await program({ feed });
    await once(installed);
    feed.requests.clear();
    expect(await installed.run('resync', permits)).toMatchObject({ exitCode: 0 });
    const { stdout } = await installed.run('status');
    expect(stdout).toMatch(new RegExp(`${permits} .* to be loaded again, as you asked`));
    expect(feed.requests.entries()).toEqual([]);
    await once(installed);
    expect(new Set(downloadsOf(feed))).toEqual(new Set([permits]));
    await expectMirrored(installed, feed);
  });
});

describe('F35 a missing subscription', () => {
  it('F35 a missing subscription is suspended and keeps its datasets, until forget retires what only it contained', async () => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['permits', 'parcels', 'zoning'] });
    const [permits, zoning] = [datasetOf('permits'), datasetOf('zoning')];
    feed.publisher.remove(zoning, 'subscription_changed');
    feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: [permits, zoning] });
    const installed = await program({ feed });
    await once(installed);
    await expectMirrored(installed, feed);

    feed.publisher.unsubscribe('sub_2');
    const unsure = await once(installed);
    expect(unsure.stdout).toMatch(/^3 datasets in 1 subscription: 0 loaded, 3 already up to date\./);
    expect(unsure.stdout).toMatch(/Running it again helps from .* UTC on, in 10 m 0 s\./);
    const absent = await installed.run('status');
    expect(absent.stdout).toMatch(
      /^Subscription sub_2 is absent from the list of subscriptions since .*, confirmed after /m,
    );

    feed.clock.advance(CONFIRMED_AFTER_MS);
    const { stdout } = await once(installed, 77);
    expect(stdout).toContain('Subscription sub_2 is suspended (subscription_missing): ');
    expect(stdout).toContain('feed-sync forget --subscription sub_2');

    expect(await installed.run('forget', '--subscription', 'sub_2', '--yes')).toMatchObject({
      exitCode: 0,
      stdout:
        'Forgotten: subscription sub_2.\n' +
        `Will be retired at the next catch-up, because no other subscription contains them: ${zoning}.\n` +
        `Kept, because another subscription contains them: ${permits}.\n`,
    });
    await once(installed);
    await expectMirrored(installed, feed);
    expect(JSON.parse((await installed.run('status', '--json')).stdout)).toMatchObject({
      forgottenSubscriptions: [],
      suspensions: [],
      subscriptions: [{ id: 'sub_1' }],
    });
  });
});

describe('F35 many retirements at once', () => {
  it('F35 many retirements at once wait for resume --retire, and resume --all does not approve them', async () => {
    const { feed, datasetIds } = await countyFeed({ counties: 3, rowsPerDataset: 3 });
    const installed = await program({ feed });
    await once(installed);
    const leaving = datasetIds.slice(0, 10);
    expect(leaving.length).toBeGreaterThan(datasetIds.length / 2);
    for (const datasetId of leaving) feed.publisher.remove(datasetId, 'left_coverage');
    const { stdout } = await once(installed, 77);
    expect(stdout).toContain('The retirement of datasets is suspended (mass_retirement): ');

    expect((await installed.run('resume', '--all')).stdout).toBe(
      'Retirements still wait for you to agree to them: feed-sync resume --retire\n',
    );
    expect(await installed.run('resume', '--retire', '--yes')).toMatchObject({
      exitCode: 0,
      stdout: `Agreed. Will be retired at the next catch-up, because no subscription contains them: ${leaving.toSorted().join(', ')}.\n`,
    });
    await once(installed);
    await expectMirrored(installed, feed);
  });
});
