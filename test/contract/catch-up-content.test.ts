/** Content that does not do, with a real client and a real mirror: what is loaded instead, and what fails and leaves the table. */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import type { Operation } from '../../fixtures/feed/operations.ts';
import type { FalseClaims } from '../../fixtures/feed/publish.ts';
import type { Change, Content } from '../../fixtures/source/content.ts';
import { DataError, UnknownColumnsError } from '../../src/model/errors.ts';
import { inMirror, parquet } from '../support/duckdb-mirror.ts';
import { withRealMirror } from '../support/served-world.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

type World = Awaited<ReturnType<typeof withRealMirror>>;

/** Permits alone are mirrored, with this content. */
async function mirroring(world: World, content: Content): Promise<void> {
  Object.assign(world.parts.choices, { include: ['permits'] });
  world.feed.publisher.publish('permits', content);
  await world.catchUp();
  world.feed.requests.clear();
}

/** Every answer about permits is changed. */
function rewrite(
  { feed }: World,
  operation: Operation,
  rewritten: (body: unknown) => unknown,
  times?: number,
): void {
  const match = { operation, datasetId: 'permits', times: times ?? 'always' } as const;
  feed.faults.add({ match, act: { kind: 'rewrite', rewrite: rewritten } });
}

/** The rows of a page of changes with `fields` put in, or taken out where they are undefined. */
const withFields =
  (fields: object) =>
  (body: unknown): unknown => {
    const page = Object(body);
    return {
      ...page,
      changes: page.changes.map(({ op, row }: { op: string; row: object }) => ({
        op,
        row: { ...row, ...fields },
      })),
    };
  };

const read = ({ folder }: World, select = '*') =>
  inMirror(folder, `SELECT ${select} FROM permits ORDER BY id`);

async function expectLoaded(world: World, why: string): Promise<void> {
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
  expect(world.feed.requests.entries('changes')).not.toEqual([]);
  expect(world.logged).toContainEqual([
    'info',
    expect.objectContaining({ dataset: 'permits', why: expect.stringContaining(why) }),
    'Fell back to the snapshot.',
  ]);
}

async function errorOf(world: World): Promise<Error> {
  const { datasets } = await world.catchUp();
  const permits = datasets.find(({ datasetId }) => datasetId === 'permits');
  if (permits?.kind === 'failed') return permits.error;
  throw new Error(`permits should have failed, but was ${permits?.kind}`);
}

/** Rows of two, and the one that is added to them. */
const TWO = numberedRows(2);
const THREE = numberedRows(3);
const THIRD: readonly Change[] = THREE.slice(2).map((row) => ({ op: 'added', row }));

describe('the fallback to the snapshot', () => {
  it.each<[string, FalseClaims, string]>([
    [
      'V5 F31 loads the snapshot when the changes are not those counted',
      { counts: { added: 1, changed: 1, removed: 0 } },
      'the service counted 1 added, 1 changed',
    ],
    [
      'V6 F31 loads the snapshot when the row count does not follow from what was added and removed',
      { rowCount: 4 },
      '2 rows with 1 added',
    ],
  ])('%s', async (_, claims, why) => {
    const world = await withRealMirror();
    await mirroring(world, smallContent(TWO));
    world.feed.publisher.publish('permits', smallContent(THREE, THIRD), { claims });
    world.feed.publisher.publish('permits', smallContent(THREE, []));
    await expectLoaded(world, why);
    expect(await read(world, 'id, amount::INTEGER')).toEqual(THREE);
  });

  it('C17 loads the snapshot when changes are GeoJSON and the table has another coordinate system than WGS 84', async () => {
    const world = await withRealMirror();
    const crs = { name: 'NAD83', id: { authority: 'EPSG', code: 2277 } };
    const columns = { place: { encoding: 'WKB', geometry_types: ['Point'], crs } };
    const geo = JSON.stringify({ version: '1.1.0', primary_column: 'place', columns });
    const schema = {
      ...SMALL_SCHEMA,
      schemaVersion: '2',
      columns: [column('id', 'string', false), column('place', 'geometry')],
    };
    const content = async (name: string, wkt: string, changes: readonly Change[] = []): Promise<Content> => {
      const select = `SELECT 'a' AS id, ST_AsWKB('${wkt}'::GEOMETRY) AS place`;
      const path = await parquet(world.folder, name, select, `, KV_METADATA {geo: '${geo}'}`);
      const bytes = await readFile(path);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      const file = { path, bytes: bytes.byteLength, rowCount: 1, sha256 };
      return { ...smallContent([['a', null]], changes, schema), files: [file] };
    };
    await mirroring(world, await content('first.parquet', 'POINT (3100000 10000000)'));
    const moved: Change = { op: 'changed', row: ['a', { type: 'Point', coordinates: [-97.7, 30.25] }] };
    world.feed.publisher.publish(
      'permits',
      await content('second.parquet', 'POINT (3100500 10000500)', [moved]),
    );
    await expectLoaded(
      world,
      'they hold GeoJSON, which is in WGS 84, and the column "place" is in the coordinate system EPSG:2277',
    );
    expect(await read(world, 'ST_AsText(place)')).toEqual([['POINT (3100500 10000500)']]);
  });

  it('C18 loads the snapshot when changed rows lack an envelope column of the table', async () => {
    const world = await withRealMirror();
    const schema = { ...SMALL_SCHEMA, schemaVersion: '2', envelopeColumns: [column('revision', 'integer')] };
    const rows = THREE.map((row) => [...row, 7]);
    await mirroring(world, smallContent(rows.slice(0, 2), [], schema));
    const added: readonly Change[] = rows.slice(2).map((row) => ({ op: 'added', row }));
    world.feed.publisher.publish('permits', smallContent(rows, added, schema));
    rewrite(world, 'changes', withFields({ revision: undefined }));
    await expectLoaded(world, 'rows do not carry the column "revision"');
    expect(await read(world, 'id, amount::INTEGER, revision::INTEGER')).toEqual(rows);
  });
});

describe('C19 columns that the schema does not know', () => {
  const zoned = {
    ...SMALL_SCHEMA,
    schemaVersion: '2',
    columns: [...SMALL_SCHEMA.columns, column('zone', 'string')],
  };
  /** As if the column had not been there yet. */
  const withoutZone = (body: unknown): unknown => {
    const changed = structuredClone(body);
    for (const one of Object(changed).schemas) {
      one.columns = one.columns.filter(({ name }: { name: string }) => name !== 'zone');
    }
    return changed;
  };

  /** Publishes permits with a value in the column "zone". */
  const publishZoned = ({ feed }: World): void => {
    const rows = THREE.map((row) => [...row, 'R1']);
    feed.publisher.publish('permits', smallContent(rows, null, zoned));
  };

  async function expectUnknownZone(world: World): Promise<void> {
    const error = await errorOf(world);
    expect(error).toBeInstanceOf(UnknownColumnsError);
    expect(error.message).toContain('"zone"');
    expect(world.feed.requests.entries('schemas')).toHaveLength(2);
    expect(await read(world, 'id, amount::INTEGER')).toEqual(TWO);
  }

  it('C19 reads the schemas again, then fails the dataset whose changes have an unknown column', async () => {
    const world = await withRealMirror();
    await mirroring(world, smallContent(TWO));
    world.feed.publisher.publish('permits', smallContent(THREE, THIRD));
    rewrite(world, 'changes', withFields({ zone: 'R1' }));
    await expectUnknownZone(world);
  });

  it('C19 reads the schemas again, then fails the dataset whose files have an unknown column', async () => {
    const world = await withRealMirror();
    await mirroring(world, smallContent(TWO));
    publishZoned(world);
    rewrite(world, 'schemas', withoutZone);
    await expectUnknownZone(world);
  });

  it('C19 loads files with an unknown column when the schemas that were read again list it', async () => {
    const world = await withRealMirror();
    await mirroring(world, smallContent(TWO));
    publishZoned(world);
    rewrite(world, 'schemas', withoutZone, 1);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
    expect(await read(world, 'zone')).toEqual([['R1'], ['R1'], ['R1']]);
  });
});

it.each(['reload', 'alter'] as const)(
  'V18 an unknown column type fails the dataset, with schemaChanges %s',
  async (schemaChanges) => {
    const world = await withRealMirror();
    Object.assign(world.parts.choices, { schemaChanges });
    await mirroring(world, smallContent(TWO));
    const schema = {
      ...SMALL_SCHEMA,
      schemaVersion: '2',
      columns: [...SMALL_SCHEMA.columns, column('tint', 'string')],
    };
    world.feed.publisher.publish(
      'permits',
      smallContent(
        TWO.map((row) => [...row, null]),
        [],
        schema,
      ),
    );
    rewrite(world, 'schemas', (body) => {
      const changed = structuredClone(body);
      for (const { columns } of Object(changed).schemas) {
        for (const one of columns) if (one.name === 'tint') one.type = 'colour';
      }
      return changed;
    });
    const error = await errorOf(world);
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toContain('The column "tint" of permits has the type "colour"');
    expect(await read(world, 'id, amount::INTEGER')).toEqual(TWO);
  },
);
