/** Answers that fail for a while, do not fit, or say less or more than is known: what a catch-up makes of them. */

import { describe, expect, it } from 'vitest';
import type { FaultMatch } from '../../fixtures/feed/faults.ts';
import type { SourceColumn } from '../../fixtures/source/content.ts';
import { present } from '../../src/lib/assert.ts';
import { ContractViolationError, ServiceUnavailableError } from '../../src/model/errors.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { behind, publishNext, type ServedWorld, withRealMirror } from '../support/served-world.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { kinds, versions } from '../support/small-world.ts';

const OLD = { parcels: 1, permits: 1, roads: 1 };
const NEW = { parcels: 2, permits: 2, roads: 2 };
const WITHOUT_SUB_1 = { parcels: 1, permits: 1, roads: 2 };
const WITHOUT_PERMITS = { ...NEW, permits: 1 };

/** Changes every answer that matches. */
function rewriteEvery({ feed }: ServedWorld, match: FaultMatch, rewrite: (body: unknown) => unknown): void {
  feed.faults.add({ match: { times: 'always', ...match }, act: { kind: 'rewrite', rewrite } });
}

/** A change that puts `value` at a path like `versions[0].version`, or takes the field away where it is undefined. */
function field(path: string, value: unknown): (body: unknown) => unknown {
  const steps = path.match(/[^.[\]]+/g) ?? [];
  const last = present(steps.pop(), 'a path has steps');
  return (body) => {
    const changed = structuredClone(body);
    const holder = steps.reduce((at, step) => Object(at)[step], changed);
    Object.assign(Object(holder), { [last]: value });
    return changed;
  };
}

/** The one failure or incident, and the dataset or subscription that it belongs to. */
function incidentOf({ datasets, incidents }: CatchUpResult) {
  const failed = datasets.flatMap((one) => (one.kind === 'failed' ? [{ of: one.datasetId, ...one }] : []));
  const all = [...failed, ...incidents.map((one) => ({ of: one.subscriptionId, ...one }))];
  expect(all).toHaveLength(1);
  return present(all[0], 'something went wrong');
}

describe('outages', () => {
  it.each([
    ['events', { subscriptionId: 'sub_1' }, 'read events of subscription sub_1', WITHOUT_SUB_1],
    ['versions', { datasetId: 'permits' }, 'list versions of dataset permits', WITHOUT_PERMITS],
    ['changes', { datasetId: 'permits' }, 'list changes of dataset permits', WITHOUT_PERMITS],
  ] as const)(
    'R2 F14 stops retrying %s after a budget until the next catch-up, and loses nothing',
    async (operation, of, title, meanwhile) => {
      const world = await behind();
      const { faults, requests } = world.feed;
      faults.add({ match: { operation, ...of, times: 'always' }, act: { kind: 'respond', status: 503 } });
      const { error } = incidentOf(await world.catchUp());
      expect(error).toBeInstanceOf(ServiceUnavailableError);
      expect(error.message).toContain(`Could not ${title}: the service answered 503 after 3 attempts`);
      expect(requests.entries(operation).filter(({ status }) => status === 503)).toHaveLength(3);
      expect(versions(world)).toEqual(meanwhile);
      faults.clear();
      expect(await world.catchUp()).toMatchObject({ incidents: [] });
      expect(versions(world)).toEqual(NEW);
    },
  );
});

describe('answers that violate the contract', () => {
  const permits = { datasetId: 'permits' };
  const sub_1 = { subscriptionId: 'sub_1' };

  const cases: readonly (readonly [string, FaultMatch, string, unknown, string | null, object])[] = [
    ['the subscriptions', { operation: 'subscriptions' }, 'subscriptions[1].id', 7, null, OLD],
    ['a log', { operation: 'events', ...sub_1 }, 'hasMore', undefined, 'sub_1', WITHOUT_SUB_1],
    // Its tables need no snapshot: changes lead them on.
    ['a manifest', { operation: 'manifest', ...sub_1 }, 'datasets[1].files[0].url', undefined, 'sub_1', NEW],
    [
      'versions',
      { operation: 'versions', ...permits },
      'versions[0].version',
      'two',
      'permits',
      WITHOUT_PERMITS,
    ],
    ['schemas', { operation: 'schemas', ...permits }, 'schemas[0].columns', null, 'permits', WITHOUT_PERMITS],
  ];

  it.each(cases)(
    'R9 F19 a contract violation in %s fails what it belongs to, with the path of the field, until it is over',
    async (_, match, path, value, of, meanwhile) => {
      const world = await behind();
      rewriteEvery(world, match, field(path, value));
      const incident = incidentOf(await world.catchUp());
      expect(incident).toMatchObject({
        of,
        error: { path, message: expect.stringContaining(` at ${path}: `) },
      });
      expect(incident.error).toBeInstanceOf(ContractViolationError);
      expect(versions(world)).toEqual(meanwhile);
      world.feed.faults.clear();
      expect(await world.catchUp()).toMatchObject({ incidents: [] });
      expect(versions(world)).toEqual(NEW);
    },
  );

  it('R9 leaves the table as it was when a later page of changes violates the contract: nothing is applied in part', async () => {
    const world = await behind();
    publishNext(world.feed, 'permits');
    const match = { operation: 'changes', ...permits, nth: 2 } as const;
    rewriteEvery(world, match, field('changes', undefined));
    const { error } = incidentOf(await world.catchUp());
    expect(error).toMatchObject({ name: 'ContractViolationError', path: 'changes' });
    expect(world.feed.requests.entries('changes').filter((one) => one.datasetId === 'permits')).toHaveLength(
      3,
    );
    expect(versions(world)).toEqual(WITHOUT_PERMITS);
    world.feed.faults.clear();
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'applied' });
    expect(versions(world)).toEqual({ ...NEW, permits: 3 });
  });
});

describe('missing and unknown fields', () => {
  /** The second version of permits, with another row; `columns` beyond those of the first one are null. */
  function publishSecond({ publisher }: ServedWorld['feed'], ...columns: readonly SourceColumn[]): void {
    const schemaVersion = columns.length === 0 ? '1' : '2';
    const schema = { ...SMALL_SCHEMA, schemaVersion, columns: [...SMALL_SCHEMA.columns, ...columns] };
    const rows = numberedRows(3).map((row) => [...row, ...columns.map(() => null)]);
    const added = rows.slice(-1).map((row) => ({ op: 'added' as const, row }));
    publisher.publish('permits', smallContent(rows, added, schema));
  }

  it.each([
    ['previousVersion', 'loaded'],
    ['schemaVersion', 'loaded'],
    ['resyncRequired', 'applied'],
  ])('R11 a version without %s is %s', async (name, how) => {
    const world = await behind([]);
    publishSecond(world.feed);
    const change = field(`versions[0].${name}`, undefined);
    rewriteEvery(world, { operation: 'versions', datasetId: 'permits' }, change);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: how });
  });

  it.each([
    ['additive', 'applied'],
    ['cosmetic', 'loaded'],
  ])('R11 a version whose schema change is of the kind %s is %s', async (kind, how) => {
    const world = await behind([]);
    Object.assign(world.parts.choices, { schemaChanges: 'alter' });
    publishSecond(world.feed, column('note', 'string'));
    const change = field('schemas[0].changeFromPrevious.kind', kind);
    rewriteEvery(world, { operation: 'schemas', datasetId: 'permits' }, change);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: how });
  });

  it('R12 F29 accepts unknown fields in every object of every answer', async () => {
    const world = await withRealMirror();
    let added = 0;
    const extended = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(extended);
      if (typeof value !== 'object' || value === null) return value;
      added += 1;
      // The fields of a row are columns.
      const fields = Object.entries(value).map(([name, inner]) => [
        name,
        name === 'row' ? inner : extended(inner),
      ]);
      return { ...Object.fromEntries(fields), unknownField: { of: ['any', 'shape'] } };
    };
    rewriteEvery(world, {}, extended);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'loaded', roads: 'loaded' });
    publishNext(world.feed, 'permits');
    expect(kinds(await world.catchUp())).toEqual({
      parcels: 'current',
      permits: 'applied',
      roads: 'current',
    });
    expect(await inMirror(world.folder, 'SELECT count(*)::INTEGER FROM permits')).toEqual([[3]]);
    expect(added).toBeGreaterThan(50);
    expect(new Set(world.feed.requests.entries().map(({ status }) => status))).toEqual(new Set([200]));
  });
});
