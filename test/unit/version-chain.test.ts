/** The possible path of changes along the chain of versions, and its stops. */

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
/** Version 10 follows that of the table. */
const TO_NEXT: ChainConstraints = {
  metadata: metadata([version('parcels', 9), version('parcels', 10)]),
  inapplicable: new Map(),
  schemaChanges: 'alter',
};

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

describe('followChain', () => {
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

  it('V19 starts no path where the list names another version under the number of the table', () => {
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

  it('V2 starts no path where the list does not name the version of the table', () => {
    const constraints = { metadata: metadata([10, 11].map((number) => version('parcels', number))) };
    expect(over({}, constraints)).toMatchObject({
      path: [],
      stop: { version: 10, why: 'the list of versions does not name version 9, which the table has' },
    });
  });

  it('takes a version once that a moving list names twice', () => {
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

  it('stops before a version with inapplicable changes', () => {
    const stopped = over({}, { inapplicable: new Map([[11, 'they were not recorded']]) });
    expect(pathOf(stopped)).toEqual([10]);
    expect(stopped.stop).toEqual({
      version: 11,
      why: 'the changes of version 11 cannot be used: they were not recorded',
      violation: null,
    });
  });

  it('stops before a schema that the service does not list, and names it as a violation by the service', () => {
    const { stop } = over({ schemaVersion: '7' });
    expect(stop?.violation).toBeInstanceOf(ContractViolationError);
    expect(stop?.violation?.message).toBe(
      'The schema "7" of version 10 of dataset parcels is not in the service\'s list of schemas.',
    );
  });

  it('V13 finds no path for a table without key columns', () => {
    expect(followChain({ ...TABLE, keyColumns: [] }, TO_NEXT).stop?.why).toBe(
      'the table has no key columns, so it cannot take changes',
    );
  });

  it.each(['json', 'number', 'geometry'] as const)(
    'V13 finds no path for a table with a key column of type %s',
    (type) => {
      const columns = [observedColumn('id', { role: 'key' }), observedColumn('shape', { role: 'key', type })];
      expect(followChain({ ...TABLE, columns, keyColumns: ['id', 'shape'] }, TO_NEXT).stop?.why).toBe(
        `the table has the key column "shape" of type ${type}, so it cannot take changes`,
      );
      expect(pathOf(followChain({ ...TABLE, columns }, TO_NEXT))).toEqual([10]);
    },
  );

  it('stops before other key columns, though the schema has the same name', () => {
    const rekeyed = [schema('parcels', { keyColumns: ['id', 'county'] })];
    const versions = [version('parcels', 9), version('parcels', 10)];
    expect(over({}, { metadata: metadata(versions, rekeyed) }).stop?.why).toBe(
      'version 10 has other key columns',
    );
  });

  it('accepts the same key columns in another order', () => {
    const keyed = { ...TABLE, keyColumns: ['id', 'county'] };
    const schemas = [schema('parcels', { keyColumns: ['county', 'id'] })];
    const constraints = {
      metadata: metadata([version('parcels', 9), version('parcels', 10)], schemas),
      inapplicable: new Map(),
    };
    expect(pathOf(followChain(keyed, { ...constraints, schemaChanges: 'reload' }))).toEqual([10]);
  });
});

describe('F34 schema changes along the chain', () => {
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

  it('W24 stops before an additive schema change where the setting asks for a snapshot', () => {
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

  it('follows the chain over schema changes that each add columns', () => {
    expect(pathOf(overSchemas({}))).toEqual([10, 11]);
  });

  it.each<readonly [string, Partial<Schema>]>([
    ['breaking', { changeFromPrevious: { ...ADDITIVE, kind: 'breaking' } }],
    ['stated as additive, with other keys', { changeFromPrevious: { ...ADDITIVE, keyColumnsChanged: true } }],
    ['not stated', { changeFromPrevious: null }],
    ['from an unstated schema', { changeFromPrevious: { ...ADDITIVE, previousSchemaVersion: null } }],
    ['from an unlisted schema', { changeFromPrevious: { ...ADDITIVE, previousSchemaVersion: '0' } }],
    ['from itself', { changeFromPrevious: { ...ADDITIVE, previousSchemaVersion: '2' } }],
    ['stated as additive, without a column', { columns: [column('a')] }],
    ['stated as additive, with a retyped column', { columns: [column('id', { type: 'integer' })] }],
    ['stated as additive, with an unknown type', { columns: [column('id', { type: { unknown: 'x' } })] }],
  ])('stops before a schema change that is %s', (_, second) => {
    const stopped = overSchemas(second);
    expect(pathOf(stopped)).toEqual([]);
    expect(stopped.stop?.why).toBe('version 10 has another schema, "2", which does more than add columns');
  });

  it('stops where an envelope column goes that was added along the chain', () => {
    const envelopeColumns = [column('_fetched')];
    expect(pathOf(overSchemas({ envelopeColumns }, { envelopeColumns }))).toEqual([10, 11]);
    expect(pathOf(overSchemas({ envelopeColumns }))).toEqual([10]);
  });

  it('stops at the first schema change that does more than add columns', () => {
    const breaking = { ...ADDITIVE, kind: 'breaking', previousSchemaVersion: '2' } as const;
    expect(pathOf(overSchemas({}, { changeFromPrevious: breaking }))).toEqual([10]);
    expect(pathOf(overSchemas({}, { columns: [column('id'), column('b')] }))).toEqual([10]);
  });

  it('judges every schema between two versions, also one of no version', () => {
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

  it('keeps the envelope columns of the table', () => {
    const enveloped = {
      ...TABLE,
      columns: [...TABLE.columns, observedColumn('_fetched', { role: 'envelope' })],
    };
    const followed = (envelopeColumns: Schema['envelopeColumns']): PossiblePath => {
      const schemas = [
        schema('parcels', { schemaVersion: '2', changeFromPrevious: ADDITIVE, envelopeColumns }),
        schema('parcels'),
      ];
      const versions = [version('parcels', 9), version('parcels', 10, { schemaVersion: '2' })];
      const constraints = { metadata: metadata(versions, schemas), inapplicable: new Map() };
      return followChain(enveloped, { ...constraints, schemaChanges: 'alter' });
    };
    expect(pathOf(followed([column('_fetched')]))).toEqual([10]);
    expect(pathOf(followed([]))).toEqual([]);
  });
});

describe('cutToLimits', () => {
  const listing = (...rows: readonly number[]): readonly Version[] =>
    rows.map((changed, index) =>
      version('parcels', index + 1, { counts: { added: 0, changed, removed: 0 } }),
    );

  it('takes the whole path, within a bounded number of versions', () => {
    const limit = MAX_VERSIONS_AT_ONCE;
    expect(cutToLimits(listing())).toEqual([]);
    expect(cutToLimits(listing(...Array(limit).fill(1))).length).toBe(limit);
    expect(cutToLimits(listing(...Array(limit + 1).fill(1))).length).toBe(limit);
  });

  it('cuts the path before it lists too many rows, and takes at least one version', () => {
    const limit = MAX_ROWS_AT_ONCE;
    expect(cutToLimits(listing(limit - 1, 1, 1)).length).toBe(2);
    expect(cutToLimits(listing(limit + 1, 1)).length).toBe(1);
    expect(cutToLimits(listing(1, limit)).length).toBe(1);
  });
});
