/** How far changes lead along the chain of versions, and what stops them. */

import { describe, expect, it } from 'vitest';
import { ContractViolationError } from '../../src/model/errors.ts';
import type { Schema, SchemaChange, Version } from '../../src/model/records.ts';
import {
  type ChainConstraints,
  cutToLimits,
  followChain,
  MAX_ROWS_AT_ONCE,
  MAX_VERSIONS_AT_ONCE,
  type PossiblePath,
} from '../../src/sync/plan/version-chain.ts';
import { column, metadata, NOW, observedColumn, schema, table, version } from '../support/sync-values.ts';

const TABLE = table(9);

/** Version 9 is the table's, 10 is as given, 11 follows it. */
function over(changed: Partial<Version>, constraints: Partial<ChainConstraints> = {}): PossiblePath {
  const versions = [9, 10, 11].map((number) => version('parcels', number, number === 10 ? changed : {}));
  return followChain(TABLE, {
    metadata: metadata(versions),
    inapplicable: new Map(),
    schemaChanges: 'reload',
    ...constraints,
  });
}

function pathOf({ path }: PossiblePath): readonly number[] {
  return path.map((one) => one.version);
}

const ADDITIVE: SchemaChange = { kind: 'additive', previousSchemaVersion: '1', keyColumnsChanged: false };

describe('a walk', () => {
  it('V2 follows the chain from the table to the head, oldest version first', () => {
    expect(pathOf(over({}))).toEqual([10, 11]);
    expect(over({}).stop).toBeNull();
    const [own, next, last] = [
      version('parcels', 9),
      version('parcels', 12, { previousVersion: 9 }),
      version('parcels', 40, { previousVersion: 12 }),
    ];
    expect(pathOf(over({}, { metadata: metadata([own, next, last]) }))).toEqual([12, 40]);
    expect(
      pathOf(
        followChain(table(11), { metadata: metadata([]), inapplicable: new Map(), schemaChanges: 'reload' }),
      ),
    ).toEqual([]);
  });

  it('V19 does not begin where the list names another version under the number of the table', () => {
    const publishedAt = new Date(NOW.getTime() - 1);
    const listed = metadata([9, 10].map((number) => version('parcels', number)));
    const constraints = { metadata: listed, inapplicable: new Map(), schemaChanges: 'reload' } as const;
    const stop = 'version 9 was published anew, and is not the one that the table has';
    expect(followChain(table(9, { publishedAt }), constraints)).toMatchObject({
      path: [],
      stop: { version: 10, why: stop },
    });
    expect(pathOf(followChain(table(9, { publishedAt: NOW }), constraints))).toEqual([10]);
    expect(pathOf(followChain(table(9, { publishedAt: null }), constraints))).toEqual([10]);
    const silent = metadata([version('parcels', 9, { publishedAt: null }), version('parcels', 10)]);
    expect(pathOf(followChain(table(9, { publishedAt }), { ...constraints, metadata: silent }))).toEqual([
      10,
    ]);
    const atHead = metadata([version('parcels', 9)]);
    expect(followChain(table(9, { publishedAt }), { ...constraints, metadata: atHead }).stop).toBeNull();
  });

  it('V2 does not begin where the list does not name the version of the table', () => {
    const constraints = { metadata: metadata([10, 11].map((number) => version('parcels', number))) };
    expect(over({}, constraints)).toMatchObject({
      path: [],
      stop: { version: 10, why: 'the list of versions does not name version 9, which the table has' },
    });
  });

  it('is not led astray by a version that a moving list names twice', () => {
    const versions = [9, 10, 10, 11].map((number) => version('parcels', number));
    expect(pathOf(over({}, { metadata: metadata(versions) }))).toEqual([10, 11]);
  });

  it.each([
    ['asks for the snapshot', { resyncRequired: true }, 'version 10 asks for the snapshot'],
    ['names no predecessor', { previousVersion: null }, 'version 10 does not say which version it follows'],
    ['follows another version', { previousVersion: 8 }, 'version 10 follows version 8, not version 9'],
    ['names no schema', { schemaVersion: null }, 'version 10 does not say which schema it has'],
  ])('F28 stops before a version that %s', (_, changed, why) => {
    const stopped = over(changed);
    expect(stopped).toEqual({ path: [], stop: { version: 10, why, violation: null } });
  });

  it('F28 stops before a gap in the list', () => {
    const versions = [9, 11].map((number) => version('parcels', number));
    expect(over({}, { metadata: metadata(versions) }).stop?.why).toBe(
      'version 11 follows version 10, not version 9',
    );
  });

  it('stops before a version whose changes were found to be of no use, and goes as far as that', () => {
    const stopped = over({}, { inapplicable: new Map([[11, 'they were not recorded']]) });
    expect(pathOf(stopped)).toEqual([10]);
    expect(stopped.stop).toEqual({
      version: 11,
      why: 'the changes of version 11 cannot be used: they were not recorded',
      violation: null,
    });
  });

  it('stops before a schema that the service does not list, and says that it is its fault', () => {
    const { stop } = over({ schemaVersion: '7' });
    expect(stop?.violation).toBeInstanceOf(ContractViolationError);
    expect(stop?.violation?.message).toBe(
      'The schema "7" of version 10 of dataset parcels is not in the service\'s list of schemas.',
    );
  });

  it('V13 is none of a table without key columns', () => {
    const constraints = {
      metadata: metadata([version('parcels', 9), version('parcels', 10)]),
      inapplicable: new Map(),
      schemaChanges: 'alter',
    } as const;
    expect(followChain({ ...TABLE, keyColumns: [] }, constraints).stop?.why).toBe(
      'the table has no key columns, so it cannot take changes',
    );
  });

  it.each(['json', 'number', 'geometry'] as const)(
    'V13 is none of a table with a key column of type %s',
    (type) => {
      const constraints = {
        metadata: metadata([version('parcels', 9), version('parcels', 10)]),
        inapplicable: new Map(),
        schemaChanges: 'alter',
      } as const;
      const columns = [observedColumn('id', { role: 'key' }), observedColumn('shape', { role: 'key', type })];
      expect(followChain({ ...TABLE, columns, keyColumns: ['id', 'shape'] }, constraints).stop?.why).toBe(
        `the table has the key column "shape" of type ${type}, so it cannot take changes`,
      );
      expect(pathOf(followChain({ ...TABLE, columns }, constraints))).toEqual([10]);
    },
  );

  it('stops before other key columns, though the schema has the same name', () => {
    const rekeyed = [schema('parcels', { keyColumns: ['id', 'county'] })];
    const versions = [version('parcels', 9), version('parcels', 10)];
    expect(over({}, { metadata: metadata(versions, rekeyed) }).stop?.why).toBe(
      'version 10 has other key columns',
    );
  });

  it('takes key columns in another order for the same', () => {
    const keyed = { ...TABLE, keyColumns: ['id', 'county'] };
    const schemas = [schema('parcels', { keyColumns: ['county', 'id'] })];
    const constraints = {
      metadata: metadata([version('parcels', 9), version('parcels', 10)], schemas),
      inapplicable: new Map(),
    };
    expect(pathOf(followChain(keyed, { ...constraints, schemaChanges: 'reload' }))).toEqual([10]);
  });
});

describe('F34 a schema that changes on the way', () => {
  /** Version 10 has schema 2, version 11 schema 3. */
  function overSchemas(second: Partial<Schema>, third: Partial<Schema> = {}): PossiblePath {
    const columns = [column('id'), column('a')];
    const schemas = [
      schema('parcels', {
        schemaVersion: '3',
        columns: [...columns, column('b')],
        changeFromPrevious: { ...ADDITIVE, previousSchemaVersion: '2' },
        ...third,
      }),
      schema('parcels', { schemaVersion: '2', columns, changeFromPrevious: ADDITIVE, ...second }),
      schema('parcels'),
    ];
    const versions = [
      version('parcels', 9),
      version('parcels', 10, { schemaVersion: '2' }),
      version('parcels', 11, { schemaVersion: '3' }),
    ];
    return followChain(TABLE, {
      metadata: metadata(versions, schemas),
      inapplicable: new Map(),
      schemaChanges: 'alter',
    });
  }

  it('W24 stops the walk where the snapshot is to be loaded for additive changes too', () => {
    const versions = [version('parcels', 9), version('parcels', 10, { schemaVersion: '2' })];
    const schemas = [
      schema('parcels', { schemaVersion: '2', changeFromPrevious: ADDITIVE }),
      schema('parcels'),
    ];
    const constraints = { metadata: metadata(versions, schemas), inapplicable: new Map() };
    expect(followChain(TABLE, { ...constraints, schemaChanges: 'reload' }).stop?.why).toBe(
      'version 10 has another schema, "2"',
    );
    expect(pathOf(followChain(TABLE, { ...constraints, schemaChanges: 'alter' }))).toEqual([10]);
  });

  it('is gone over where each change adds columns', () => {
    expect(pathOf(overSchemas({}))).toEqual([10, 11]);
  });

  it.each<readonly [string, Partial<Schema>]>([
    ['breaking', { changeFromPrevious: { ...ADDITIVE, kind: 'breaking' } }],
    [
      'said to be additive, with other keys',
      { changeFromPrevious: { ...ADDITIVE, keyColumnsChanged: true } },
    ],
    ['not said', { changeFromPrevious: null }],
    ['from a schema that is not said', { changeFromPrevious: { ...ADDITIVE, previousSchemaVersion: null } }],
    ['from a schema that is not listed', { changeFromPrevious: { ...ADDITIVE, previousSchemaVersion: '0' } }],
    ['from itself', { changeFromPrevious: { ...ADDITIVE, previousSchemaVersion: '2' } }],
    ['said to be additive, and lacks a column', { columns: [column('a')] }],
    ['said to be additive, and retypes a column', { columns: [column('id', { type: 'integer' })] }],
    [
      'said to be additive, to a type that is not known',
      { columns: [column('id', { type: { unknown: 'x' } })] },
    ],
  ])('stops the walk where a change is %s', (_, second) => {
    const stopped = overSchemas(second);
    expect(pathOf(stopped)).toEqual([]);
    expect(stopped.stop?.why).toBe('version 10 has another schema, "2", which does more than add columns');
  });

  it('stops the walk where an envelope column goes that came on the way', () => {
    const envelopeColumns = [column('_fetched')];
    expect(pathOf(overSchemas({ envelopeColumns }, { envelopeColumns }))).toEqual([10, 11]);
    expect(pathOf(overSchemas({ envelopeColumns }))).toEqual([10]);
  });

  it('stops the walk at the first change that does more than add columns', () => {
    const breaking = { ...ADDITIVE, kind: 'breaking', previousSchemaVersion: '2' } as const;
    expect(pathOf(overSchemas({}, { changeFromPrevious: breaking }))).toEqual([10]);
    expect(pathOf(overSchemas({}, { columns: [column('id'), column('b')] }))).toEqual([10]);
  });

  it('is judged by every schema between the two, those of no version too', () => {
    const skipped = (between: Partial<Schema>): PossiblePath => {
      const schemas = [
        schema('parcels', {
          schemaVersion: '3',
          changeFromPrevious: { ...ADDITIVE, previousSchemaVersion: '2' },
        }),
        schema('parcels', { schemaVersion: '2', changeFromPrevious: ADDITIVE, ...between }),
        schema('parcels'),
      ];
      const versions = [version('parcels', 9), version('parcels', 10, { schemaVersion: '3' })];
      return followChain(TABLE, {
        metadata: metadata(versions, schemas),
        inapplicable: new Map(),
        schemaChanges: 'alter',
      });
    };
    expect(pathOf(skipped({}))).toEqual([10]);
    expect(pathOf(skipped({ changeFromPrevious: { ...ADDITIVE, kind: 'breaking' } }))).toEqual([]);
  });

  it('keeps the envelope columns that the table has', () => {
    const enveloped = {
      ...TABLE,
      columns: [...TABLE.columns, observedColumn('_fetched', { role: 'envelope' })],
    };
    const walked = (envelopeColumns: Schema['envelopeColumns']): PossiblePath => {
      const schemas = [
        schema('parcels', { schemaVersion: '2', changeFromPrevious: ADDITIVE, envelopeColumns }),
        schema('parcels'),
      ];
      const versions = [version('parcels', 9), version('parcels', 10, { schemaVersion: '2' })];
      const constraints = { metadata: metadata(versions, schemas), inapplicable: new Map() };
      return followChain(enveloped, { ...constraints, schemaChanges: 'alter' });
    };
    expect(pathOf(walked([column('_fetched')]))).toEqual([10]);
    expect(pathOf(walked([]))).toEqual([]);
  });
});

describe('what is committed at once', () => {
  const listing = (...rows: readonly number[]): readonly Version[] =>
    rows.map((changed, index) =>
      version('parcels', index + 1, { counts: { added: 0, changed, removed: 0 } }),
    );

  it('is the whole path, within a limited number of versions', () => {
    const limit = MAX_VERSIONS_AT_ONCE;
    expect(cutToLimits(listing())).toEqual([]);
    expect(cutToLimits(listing(...Array(limit).fill(1))).length).toBe(limit);
    expect(cutToLimits(listing(...Array(limit + 1).fill(1))).length).toBe(limit);
  });

  it('is cut before it lists too many rows, and is one version at the least', () => {
    const limit = MAX_ROWS_AT_ONCE;
    expect(cutToLimits(listing(limit - 1, 1, 1)).length).toBe(2);
    expect(cutToLimits(listing(limit + 1, 1)).length).toBe(1);
    expect(cutToLimits(listing(1, limit)).length).toBe(1);
  });
});
