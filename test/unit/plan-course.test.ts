/**
 * Where plans lead, one after another: over pasts with every gap and silence that a service may have, and manifests
 * that lag, a catch-up ends, goes wrong nowhere, and gets to the head wherever it can.
 */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ContractViolationError } from '../../src/model/errors.ts';
import type { Schema } from '../../src/model/schema.ts';
import { changesContentOf, contentOf } from '../../src/sync/plan/content.ts';
import { plan } from '../../src/sync/plan/plan.ts';
import type { Offer, PlanInput } from '../../src/sync/plan/step.ts';
import { carryOut, type ModelHistory, type Published, tableAt } from '../support/model-history.ts';
import { SEED } from '../support/seed.ts';
import { column, failure, hold, NOW, offer, schema, table, version, want } from '../support/sync-values.ts';

const NUM_RUNS = 1_000;

/** Mostly the usual. */
function mostly<T>(usual: T, ...others: readonly T[]): fc.Arbitrary<T> {
  return fc.oneof(
    { weight: 5, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );
}

/** How the schema of a version differs from the one before. `lies`: said to add columns, and drops one. */
type SchemaStep = 'same' | 'adds' | 'drops' | 'retypes' | 'rekeys' | 'lies' | 'adds, unsaid';

const publishing = fc.record({
  ahead: mostly(1, 2),
  saysPrevious: mostly<'right' | 'not' | 'wrong'>('right', 'not', 'wrong'),
  resyncRequired: mostly(false, true),
  isRecorded: mostly(true, false),
  isBad: mostly(false, false, true),
  isListed: mostly(true, true, true, false),
  schemaStep: mostly<SchemaStep>('same', 'adds', 'drops', 'retypes', 'rekeys', 'lies', 'adds, unsaid'),
  saysSchema: mostly(true, false),
  isSchemaListed: mostly(true, false),
  counts: fc.option(fc.nat(20_000).map((changed) => ({ added: 0, changed, removed: 0 }))),
});

type Made<Maker> = Maker extends fc.Arbitrary<infer Value> ? Value : never;
type Publishing = Made<typeof publishing>;

/** Versions from 3 on; the first is the start of the past. */
function modelOf(hasKeys: boolean, steps: readonly Publishing[]): ModelHistory {
  const first = schema('parcels', {
    firstVersion: 3,
    columns: [column('id'), column('a'), column('b')],
    keyColumns: hasKeys ? ['id'] : [],
  });
  const published: Published[] = [
    {
      record: version('parcels', 3, { previousVersion: null }),
      isListed: true,
      follows: null,
      isRecorded: true,
      isBad: false,
      schema: first,
      keepsColumns: true,
    },
  ];
  const schemas = [first];
  for (const step of steps) {
    const before = published.at(-1)?.record.version ?? 3;
    const schemaBefore = published.at(-1)?.schema ?? first;
    const number = before + step.ahead;
    const next = nextSchema(schemaBefore, step.schemaStep, number);
    if (next !== schemaBefore && step.isSchemaListed) schemas.unshift(next);
    published.push({
      record: version('parcels', number, {
        previousVersion: { right: before, not: null, wrong: 0 }[step.saysPrevious],
        resyncRequired: step.resyncRequired,
        schemaVersion: step.saysSchema ? next.schemaVersion : null,
        counts: step.counts,
      }),
      isListed: step.isListed,
      follows: before,
      isRecorded: step.isRecorded,
      isBad: step.isBad,
      schema: next,
      keepsColumns: step.schemaStep === 'same' || step.schemaStep === 'adds',
    });
  }
  return { published, schemas, badContents: new Set() };
}

function nextSchema(before: Schema, step: SchemaStep, firstVersion: number): Schema {
  if (step === 'same') return before;
  const schemaVersion = `${firstVersion}`;
  const isSaidToAdd = step === 'adds' || step === 'lies';
  const change = {
    kind: isSaidToAdd ? ('additive' as const) : ('breaking' as const),
    previousSchemaVersion: before.schemaVersion,
    keyColumnsChanged: step === 'rekeys',
  };
  const last = before.columns.at(-1);
  const kept = before.columns.slice(0, -1);
  const columns = {
    adds: [...before.columns, column(`added in ${schemaVersion}`)],
    'adds, unsaid': [...before.columns, column(`added in ${schemaVersion}`)],
    drops: kept,
    lies: kept,
    retypes: last === undefined ? kept : [...kept, { ...last, type: 'json' as const }],
    rekeys: before.columns,
  }[step];
  return schema('parcels', {
    schemaVersion,
    firstVersion,
    columns,
    keyColumns: step === 'rekeys' ? [...before.keyColumns, 'a'] : before.keyColumns,
    changeFromPrevious: step === 'adds, unsaid' ? null : change,
  });
}

const models = fc
  .tuple(mostly(true, false), fc.array(publishing, { maxLength: 7 }))
  .map(([hasKeys, steps]) => modelOf(hasKeys, steps));

/** A member of the list, by a number that shrinks. */
function at<T>(items: readonly T[], index: number): T {
  const item = items[index % items.length];
  if (item === undefined) throw new Error('The list is empty.');
  return item;
}

const numbers = fc.bigInt({ min: 0n, max: 6n });
const reloadsBy = fc.uniqueArray(fc.tuple(fc.constantFrom('sub_1', 'sub_2'), numbers), {
  selector: ([subscriptionId]) => subscriptionId,
  maxLength: 2,
});

/** What is picked for one catch-up, with numbers for what depends on the past. */
const picks = fc.record({
  table: fc.option(
    fc.record({ at: fc.nat(9), isAhead: mostly(false, true), hasOldSchema: mostly(false, true) }),
  ),
  offers: fc.uniqueArray(
    fc.record({
      subscriptionId: fc.constantFrom('sub_1', 'sub_2'),
      at: fc.nat(9),
      reflects: fc.option(numbers),
      saysSchema: fc.boolean(),
      content: fc.constantFrom('a', 'b', null),
      rowCount: fc.option(fc.nat(200_000)),
      isBad: mostly(false, true),
    }),
    { selector: ({ subscriptionId }) => subscriptionId, maxLength: 2 },
  ),
  members: fc.constantFrom<readonly ('sub_1' | 'sub_2')[]>(['sub_1'], ['sub_1', 'sub_2']),
  atLeast: fc.option(fc.nat(10)),
  reloadAfter: reloadsBy,
  satisfied: reloadsBy,
  cursors: reloadsBy,
  askedMinutesAgo: fc.constantFrom(1, 20),
  resyncsAsked: mostly(0, 1),
  // Not less often: where a look is owed of a table that is not listed, offers are read.
  looksAsked: mostly(1, 0),
  failed: fc.option(fc.record({ isSnapshot: fc.boolean(), at: fc.nat(9), isStanding: fc.boolean() })),
  schemaChanges: fc.constantFrom<PlanInput['schemaChanges']>('reload', 'alter'),
});

interface Course {
  readonly input: PlanInput;
  readonly model: ModelHistory;
}

function courseOf(model: ModelHistory, picked: Made<typeof picks>): Course {
  const { published } = model;
  const offers = picked.offers
    .filter(({ subscriptionId }) => picked.members.includes(subscriptionId))
    .map((made): Offer => {
      const { record, schema: truly } = at(published, made.at);
      const content = made.content === null ? null : `${record.version}${made.content}`;
      const { entry } = offer(record.version, { content });
      const { subscriptionId, reflects, rowCount } = made;
      const schemaVersion = made.saysSchema ? truly.schemaVersion : null;
      return { subscriptionId, reflects, entry: { ...entry, rowCount, schemaVersion } };
    });
  const badContents = offers
    .filter((_, index) => picked.offers[index]?.isBad)
    .map(({ entry }) => contentOf(entry));
  const { failed } = picked;
  const contents =
    failed === null || (failed.isSnapshot && offers.length === 0)
      ? []
      : failed.isSnapshot
        ? [contentOf(at(offers, failed.at).entry)]
        : [changesContentOf(at(published, failed.at).record)];
  const input: PlanInput = {
    want: want({
      members: new Set(picked.members),
      atLeastVersion:
        picked.atLeast === null
          ? null
          : at(published, picked.atLeast).record.version + (picked.atLeast > 8 ? 1 : 0),
      reloadAfter: new Map(picked.reloadAfter),
      reloadAskedAt: new Map(
        picked.reloadAfter.map(([id]) => [id, new Date(NOW.getTime() - picked.askedMinutesAgo * 60_000)]),
      ),
      resyncsAsked: picked.resyncsAsked,
      looksAsked: picked.looksAsked,
    }),
    held: heldOf(model, picked),
    hold: null,
    failure:
      failed === null
        ? null
        : failure({ contents, retryAt: new Date(NOW.getTime() + (failed.isStanding ? 1 : 0)) }),
    offers,
    cursors: new Map(picked.cursors),
    history: null,
    unusable: new Map(),
    retirement: { kind: 'allowed' },
    schemaChanges: picked.schemaChanges,
    now: NOW,
  };
  return { input, model: { ...model, badContents: new Set(badContents) } };
}

function heldOf({ published }: ModelHistory, { table: picked, satisfied }: Made<typeof picks>) {
  if (picked === null) return null;
  const reloads = new Map(satisfied);
  if (picked.isAhead) return table(99, { reloads });
  const loaded = at(published, picked.at);
  return tableAt(loaded, { reloads, ...(picked.hasOldSchema ? { schemaVersion: '0' } : {}) });
}

const courses = fc.tuple(models, picks).map(([model, picked]) => courseOf(model, picked));

/** Each plan reads the history, learns of one version or that versions began anew, gets the table on, or ends it. */
function maxSteps({ published }: ModelHistory): number {
  return 2 + 2 * published.length + 4 + 2;
}

function always<Given>(property: fc.IProperty<Given>): void {
  fc.assert(property, { seed: SEED, numRuns: NUM_RUNS });
}

describe('a catch-up', () => {
  it('ends, and every step of it is right', () => {
    const ends = new Map<string, number>();
    always(
      fc.property(courses, ({ input, model }) => {
        const { end, steps } = carryOut(input, model, maxSteps(model));
        for (const kind of new Set([end, ...steps.map((one) => one.kind)])) {
          ends.set(kind, (ends.get(kind) ?? 0) + 1);
        }
      }),
    );
    // Shows that the pasts are as various as they should be.
    for (const kind of [
      'keep',
      'wait',
      'report-failure',
      'failed',
      'violation',
      'load',
      'apply',
      'want-reload',
    ]) {
      expect(ends.get(kind) ?? 0, kind).toBeGreaterThan(0);
    }
  });

  it('that reads offers only where a plan asks for them gets as far, and often needs none', () => {
    let unasked = 0;
    always(
      fc.property(courses, ({ input, model }) => {
        const early = carryOut(input, model, maxSteps(model));
        const late = carryOut(input, model, maxSteps(model) + 1, { areOffersUnread: true });
        if (!late.steps.some(({ kind }) => kind === 'read-offers') && late.steps.length > 1) unasked += 1;
        // What fails depends on the way that is taken, and of two ways as long either may be.
        if ([early.end, late.end].some((end) => end === 'failed' || end === 'report-failure')) return;
        expect(late.end).toBe(early.end);
        expect(late.input.held?.version).toBe(early.input.held?.version);
      }),
    );
    expect(unasked).toBeGreaterThan(NUM_RUNS / 20);
  });

  it('leaves nothing to do: the next of the same feed commits nothing', () => {
    always(
      fc.property(courses, ({ input, model }) => {
        const first = carryOut(input, model, maxSteps(model));
        if (first.end === 'failed') return;
        const again = { ...first.input, history: null, unusable: new Map<number, string>() };
        const second = carryOut(again, model, maxSteps(model));
        expect(second.input.held).toEqual(first.input.held);
      }),
    );
  });

  it('that waits for a version has come as far as changes lead', () => {
    always(
      fc.property(courses, ({ input, model }) => {
        const { end, input: last } = carryOut(input, model, maxSteps(model));
        if (end === 'wait' && isBehindOnly(last)) expect(isNextInReach(last, model)).toBe(false);
      }),
    );
  });

  it('gets to the head wherever the manifest is there and nothing is held or bad', () => {
    always(
      fc.property(models, picks, (past, picked) => {
        const published = past.published.map((one) => ({ ...one, isBad: false, isListed: true }));
        const listed = new Set([...past.schemas, ...published.map((one) => one.schema)]);
        const model = {
          ...past,
          published,
          schemas: [...listed].sort(
            (left, right) => Number(right.schemaVersion) - Number(left.schemaVersion),
          ),
        };
        const head = published.length - 1;
        const { input } = courseOf(model, {
          ...picked,
          table: picked.table === null ? null : { ...picked.table, isAhead: false },
          offers: picked.members.map((subscriptionId) => ({
            subscriptionId,
            at: head,
            reflects: 6n,
            saysSchema: true,
            content: 'a',
            rowCount: null,
            isBad: false,
          })),
          atLeast: head,
          looksAsked: 1,
          failed: null,
        });
        const course = carryOut(input, model, maxSteps(model));
        const newest = at(published, head);
        expect(course.end).toBe('keep');
        expect(course.input.held?.version).toBe(newest.record.version);
        expect(course.input.held?.columns.map(({ name }) => name)).toEqual(
          newest.schema.columns.map(({ name }) => name),
        );
      }),
    );
  });

  it('of what is held does nothing but report it', () => {
    always(
      fc.property(courses, ({ input, model }) => {
        const { steps } = carryOut({ ...input, hold: hold() }, model, 1);
        expect(steps).toEqual([{ kind: 'report-hold', hold: hold() }]);
      }),
    );
  });

  it('of what nobody holds retires the table, or leaves it alone', () => {
    always(
      fc.property(courses, ({ input, model }) => {
        const { held } = input;
        const left = { ...input, want: { ...input.want, members: new Set<string>() } };
        expect(carryOut(left, model, 1).end).toBe(held === null ? 'leave' : 'retire');
      }),
    );
  });
});

/** Only a newer version is needed, not the table as a whole. */
function isBehindOnly({ want: wanted, held, history }: PlanInput): boolean {
  if (held === null || history === null || wanted.resyncsDone < wanted.resyncsAsked) return false;
  return [...wanted.reloadAfter].every(([id, number]) => (held.reloads.get(id) ?? -1n) >= number);
}

/** Whether the next listed version follows the table's in the most usual way. */
function isNextInReach({ held, history }: PlanInput, { published }: ModelHistory): boolean {
  const newer = history?.versions.filter((one) => one.version > (held?.version ?? 0)) ?? [];
  const next = newer.at(-1);
  const truth = published.find(({ record }) => record.version === next?.version);
  if (next === undefined || truth === undefined || held === null) return false;
  return (
    held.keyColumns.length > 0 &&
    truth.isRecorded &&
    !next.resyncRequired &&
    next.previousVersion === held.version &&
    next.schemaVersion === held.schemaVersion
  );
}

describe('a plan', () => {
  it('is made of anything, however little sense it makes; only an unlisted schema is the fault of the service', () => {
    const anyNumber = fc.integer({ min: -2, max: 6 });
    const anyName = fc.constantFrom('1', '2', '3');
    const anyVersion = fc
      .record({
        version: anyNumber,
        previousVersion: fc.option(anyNumber),
        schemaVersion: fc.option(anyName),
        resyncRequired: fc.boolean(),
      })
      .map((made) => version('parcels', made.version, made));
    const anyChange = fc.record({
      kind: fc.constantFrom<'additive' | 'breaking'>('additive', 'breaking'),
      previousSchemaVersion: fc.option(anyName),
      keyColumnsChanged: fc.boolean(),
    });
    const anySchema = fc
      .record({
        schemaVersion: anyName,
        firstVersion: fc.option(anyNumber),
        keyColumns: fc.subarray(['id', 'a']),
        changeFromPrevious: fc.option(anyChange),
      })
      .map((made) => schema('parcels', made));
    const anyHistory = fc.record({
      newerThan: fc.option(anyNumber),
      versions: fc.array(anyVersion, { maxLength: 5 }),
      schemas: fc.array(anySchema, { maxLength: 4 }),
    });
    const input = fc.tuple(courses, fc.option(anyHistory), fc.option(anyNumber), fc.boolean());
    fc.assert(
      fc.property(input, ([{ input: made }, history, heldVersion, isMember]) => {
        const held = heldVersion === null ? null : table(heldVersion);
        const members = isMember ? made.want.members : new Set<string>();
        try {
          expect(plan({ ...made, history, held, want: { ...made.want, members } }).kind).toMatch(/./);
        } catch (error) {
          expect(error).toBeInstanceOf(ContractViolationError);
        }
      }),
      { seed: SEED, numRuns: NUM_RUNS },
    );
  });
});
