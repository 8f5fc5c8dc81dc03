/** A table or a view that an operator made where the table of a dataset belongs: it is never touched, and the failure says what to do. */

import { join } from 'node:path';
import { expect, it } from 'vitest';
import { exitCodeOfResult } from '../../src/cli/render/summary.ts';
import { contentRequests, messageOf } from '../support/bad-content.ts';
import { duckdb, inMirror } from '../support/duckdb-mirror.ts';
import { publishNext, withRealMirror } from '../support/served-world.ts';
import { kinds } from '../support/small-world.ts';

it.each([
  ['table', 'CREATE TABLE m.Permits AS SELECT 42 AS mine', 'ALTER TABLE m.Permits RENAME TO kept'],
  ['view', 'CREATE VIEW m.Permits AS SELECT 42 AS mine', 'ALTER VIEW m.Permits RENAME TO kept'],
])(
  'leaves a %s alone that an operator made under the name of a dataset that left and comes back',
  async (kind, create, rename) => {
    const world = await withRealMirror();
    const { feed, folder } = world;
    const attach = `ATTACH '${join(folder, 'mirror.duckdb')}' AS m`;
    await world.catchUp();
    feed.publisher.remove('permits', 'left_coverage');
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'retired' });
    await duckdb(attach, create);
    feed.publisher.restore('permits', { subscriptionId: 'sub_1' });
    publishNext(feed, 'parcels');

    const result = await world.catchUp();
    expect(kinds(result)).toEqual({ parcels: 'applied', permits: 'failed', roads: 'current' });
    expect(exitCodeOfResult(result)).toBe(74);
    expect(messageOf(result, 'permits')).toBe(
      `The mirror has a ${kind} main.permits that feed-sync did not make, under the name of the table of permits.`,
    );
    feed.requests.clear();
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'failed' });
    expect(contentRequests(feed, 'permits')).toEqual([]);
    expect(await inMirror(folder, 'FROM permits')).toEqual([[42]]);

    await duckdb(attach, rename);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
    expect(await inMirror(folder, 'SELECT id FROM permits')).toHaveLength(2);
    expect(await inMirror(folder, 'FROM kept')).toEqual([[42]]);
  },
);
