/** Changes that are read while later versions are still being fetched have the same net change as all of them together. */

import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { Engine } from '../../src/staging/engine/engine.ts';
import { changeFolderOfTests } from '../support/change-folder.ts';
import { added, pageOf, removed, type WrittenVersion } from '../support/change-pages.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { column } from '../support/duckdb-mirror.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { SEED } from '../support/seed.ts';
import { column as sourceColumn } from '../support/small-content.ts';

const folder = changeFolderOfTests();

const columns = [column('id', 'integer'), column('v', 'string'), column('g', 'geometry')];
const table = { columns };

const row = (id: number, value: string, rest = ''): string => added(`{"id":${id},"v":"${value}"${rest}}`);
const gone = (id: number): string => removed(`{"id":${id}}`);
const version = (...changes: readonly string[]): WrittenVersion => ({ changes: [changes] });
const point = ',"g":{"type":"Point","coordinates":[1,2]}';
/** Another order of members, which is read the longer way. */
const oddPoint = ',"g":{"coordinates":[1,2],"type":"Point"}';

interface GivenChange {
  readonly id: number;
  readonly stays: boolean;
  readonly odd: boolean;
}

/**
 * Pages of changes as they are written. Keys that are few occur in several versions, which are coalesced; others never. No version
 * lists one twice.
 */
function versionsOf(
  versions: readonly (readonly (readonly GivenChange[])[])[],
  areFew: boolean,
): readonly WrittenVersion[] {
  let serial = 0;
  const written = ({ id, stays, odd }: GivenChange, listed: Set<number>): readonly string[] => {
    serial += 1;
    const key = areFew ? id : serial;
    if (listed.has(key)) return [];
    listed.add(key);
    return [stays ? row(key, `${serial}`, odd ? oddPoint : point) : gone(key)];
  };
  return versions.map((pages) => {
    const listed = new Set<number>();
    return { changes: pages.map((changes) => changes.flatMap((change) => written(change, listed))) };
  });
}

/** How often pages were taken apart. */
async function counted<T>(work: () => Promise<T>): Promise<{ readonly result: T; readonly reads: number }> {
  let reads = 0;
  const run = vi.spyOn(Engine.prototype, 'run').mockImplementation(async function (this: Engine, sql) {
    if (sql.includes('read_text')) reads += 1;
    await this.use((connection) => connection.run(sql));
  });
  try {
    return { result: await work(), reads };
  } finally {
    run.mockRestore();
  }
}

describe('changes that are read ahead', () => {
  it('changes that are read ahead have the same net change, however they are cut, and whatever is left for the end', async () => {
    const change = fc.record({ id: fc.integer({ min: 1, max: 6 }), stays: fc.boolean(), odd: fc.boolean() });
    const version = fc.array(fc.array(change, { maxLength: 4 }), { minLength: 1, maxLength: 3 });
    const versions = fc.array(version, { minLength: 1, maxLength: 6 });
    const cuts = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(versions, cuts, fc.boolean(), async (given, ahead, areFew) => {
        const written = versionsOf(given, areFew);
        const whole = await folder.coalesce(table, ...written);
        const inParts = await folder.coalesce({ ...table, ahead }, ...written);
        expect(inParts.rows).toEqual(whole.rows);
        expect({ ...inParts.net, paths: [] }).toEqual({ ...whole.net, paths: [] });
      }),
      { seed: SEED, numRuns: 25 },
    );
  });

  it('reads each page once where changes are read ahead', async () => {
    const versions = [1, 2, 3, 4, 5].map((id) => version(row(id, 'a')));
    const { result, reads } = await counted(() => folder.coalesce({ ...table, ahead: [2, 1] }, ...versions));
    expect(result.net).toMatchObject({ rows: 5, removals: 0 });
    expect(result.net.paths).toHaveLength(3);
    expect(reads).toBe(3);
    const all = await counted(() => folder.coalesce({ ...table, ahead: [2, 3] }, ...versions));
    expect(all.reads).toBe(2);
  });

  it('reads changes again that were read ahead with another schema than the whole has in the end', async () => {
    // The path was cut before the version that adds the column in the middle.
    const wider = {
      columns: [column('id', 'integer'), column('w', 'string'), column('v', 'string')],
      lacks: ['w'],
    };
    const versions = [version(row(1, 'a')), version(row(2, 'b'))];
    const whole = await folder.coalesce(wider, ...versions);
    const aheadAs = { addsColumns: true };
    const { result, reads } = await counted(() =>
      folder.coalesce({ ...wider, ahead: [1], aheadAs }, ...versions),
    );
    expect(reads).toBe(2);
    expect(result.net.paths).toHaveLength(1);
    expect(result.rows).toEqual(whole.rows);
    expect(result.rows.map(([, , value]) => value)).toEqual(['a', 'b']);
  });

  it.each([
    [
      'a value that does not fit its type, in a part',
      [version(row(1, 'a')), version(added('{"id":2,"v":3}'))],
    ],
    [
      'a value that does not fit its type, behind the parts',
      [version(row(1, 'a')), version(), version(row(2, 'a'), added('{"id":3,"v":3}'))],
    ],
    ['a malformed geometry', [version(row(1, 'a', point)), version(row(2, 'a', ',"g":{"type":"Pint"}'))]],
    [
      'a name that the schema does not know',
      [version(row(1, 'a')), version(row(2, 'a'), row(3, 'b', ',"w":1'))],
    ],
    ['a key with two rows', [version(row(1, 'a')), version(row(2, 'a')), version(row(3, 'a'), row(3, 'b'))]],
    ['a malformed page', [version(row(1, 'a')), { pages: [pageOf([row(2, 'b')]), '{"changes":[}'] }]],
    ['no key', [version(row(1, 'a')), version(row(2, 'a')), version(added('{"id":null}'))]],
  ] as const)('refuses changes that are read ahead in the same words: %s', async (_, versions) => {
    const whole = await folder.refusal(table, ...versions);
    for (const ahead of [[1], [1, 1], [2, 1], [3]]) {
      expect(await folder.refusal({ ...table, ahead }, ...versions)).toEqual(whole);
    }
  });

  it('refuses changes that are read ahead in the same words where a number would lose digits', async () => {
    const facts = { columns: [column('id', 'integer'), column('f', 'json')] };
    const fact = (id: number, text: string) => version(added(`{"id":${id},"f":${text}}`));
    const versions = [fact(1, '{"a":1.5}'), fact(2, '{"a":0.12345678901234567890123}')];
    const whole = await folder.refusal(facts, ...versions);
    for (const ahead of [[1], [1, 1], [2]]) {
      expect(await folder.refusal({ ...facts, ahead }, ...versions)).toEqual(whole);
    }
  });

  it('applies changes by the mirror that read them ahead', async () => {
    const world = await mirrorAtWork();
    const schema = sourceSchema([sourceColumn('id', 'integer', false), sourceColumn('name', 'string')]);
    const course = await world.loaded(firstContent(schema, [[1, 'one']]));
    for (const name of ['two', 'three', 'four']) {
      course.publishRows([
        [1, name],
        [name.length, name],
      ]);
    }
    const job = await course.changes(await world.observed());
    const first = await world.mirror.readAhead({ ...job, versions: job.versions.slice(0, 2) });
    expect(first).toMatchObject({ versions: 2 });
    const ahead = first === null ? [] : [first];
    expect(await world.execute({ ...job, ahead })).toMatchObject([{ kind: 'committed' }]);
    expect(await world.differences(course)).toEqual([]);
  });

  it.each([
    ['two parts at once in two instances', 1_200_000_000],
    ['with little memory one after the other', 100_000_000],
  ])('the mirror reads changes ahead, %s', async (_, memoryLimitBytes) => {
    const world = await mirrorAtWork({ memoryLimitBytes });
    const schema = sourceSchema([sourceColumn('id', 'integer', false), sourceColumn('name', 'string')]);
    const course = await world.loaded(firstContent(schema, [[1, 'one']]));
    for (const name of ['two', 'three', 'four', 'five']) {
      course.publishRows([
        [1, name],
        [name.length, name],
      ]);
    }
    const job = await course.changes(await world.observed());
    const part = (from: number, to: number) =>
      world.mirror.readAhead({ ...job, versions: job.versions.slice(from, to) });
    const ahead = (await Promise.all([part(0, 1), part(1, 3), part(3, 4)])).filter((each) => each !== null);
    expect(ahead.map(({ versions }) => versions)).toEqual([1, 2, 1]);
    expect(await world.execute({ ...job, ahead })).toMatchObject([{ kind: 'committed' }]);
    expect(await world.differences(course)).toEqual([]);
  });

  it('changes that cannot be read ahead raise no error before the whole is validated', async () => {
    const world = await mirrorAtWork();
    const schema = sourceSchema([sourceColumn('id', 'integer', false), sourceColumn('name', 'string')]);
    const course = await world.loaded(firstContent(schema, [[1, 'one']]));
    course.publishRows([[1, 'two']]);
    const job = await course.changes(await world.observed());
    const versions = job.versions.map((each) => ({ ...each, pages: [`${world.folder}/nothing.json`] }));
    expect(await world.mirror.readAhead({ ...job, versions })).toBeNull();
    expect(await world.execute(job)).toMatchObject([{ kind: 'committed' }]);
  });
});
