/**
 * The course of plans, one after another: over pasts with every gap and silence that a service may have, and manifests
 * that lag, a catch-up ends, makes no wrong step, and reaches the head wherever it can. The right steps are known from a model of
 * the service's past: `test/support/model-history.ts`.
 */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DesiredState, Reload } from '../../src/model/desired-state.ts';
import { ContractViolationError } from '../../src/model/errors.ts';
import { snapshotDigest } from '../../src/model/manifest.ts';
import type { Schema } from '../../src/model/records.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { changesContentOf, contentOf } from '../../src/sync/plan/content.ts';
import { pendingReloads } from '../../src/sync/plan/need.ts';
import { plan } from '../../src/sync/plan/plan.ts';
import type { PlanInput } from '../../src/sync/plan/step.ts';
import { type Course, execute, type Start, shapeOf } from '../support/model-course.ts';
import {
  asksForReload,
  type Content,
  type ModelHistory,
  type Move,
  type Published,
  publishedAt,
  reloadOf,
  shownBy,
  stateAfter,
  stateNow,
  textOf,
} from '../support/model-history.ts';
import { ago, MINUTE_MS, planInput } from '../support/planning.ts';
import { SEED } from '../support/seed.ts';
import {
  column,
  desired,
  EVERY_ENTRY,
  entry,
  failure,
  formerMember,
  member,
  NOW,
  schema,
  suspension,
  table,
  version,
} from '../support/sync-values.ts';

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
  saysWhen: mostly(true, false),
  rowCount: fc.option(fc.nat(200_000)),
  isReplaced: mostly(false, true),
});

type Made<Maker> = Maker extends fc.Arbitrary<infer Value> ? Value : never;
type Publishing = Made<typeof publishing>;

interface Past {
  readonly hasKeys: boolean;
  readonly steps: readonly Publishing[];
  /** Whether the content of the first version was replaced. */
  readonly isFirstReplaced: boolean;
  /** One more version was published, and is withdrawn. */
  readonly isLastWithdrawn: boolean;
  readonly minutesAgo: number;
}

/** Versions from 3 on; the first is the start of the past. */
function modelOf({ hasKeys, steps, isFirstReplaced, isLastWithdrawn, minutesAgo }: Past): ModelHistory {
  const first = schema('parcels', {
    firstVersion: 3,
    columns: [column('id'), column('a'), column('b')],
    keyColumns: hasKeys ? ['id'] : [],
  });
  const published: Published[] = [
    {
      record: version('parcels', 3, { previousVersion: null, rowCount: null }),
      isListed: true,
      follows: null,
      isRecorded: true,
      isBad: false,
      schema: first,
      keepsColumns: true,
    },
  ];
  const schemas = [first];
  const kinds: Move['kind'][] = ['publish', ...repeated(isFirstReplaced)];
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
        rowCount: step.rowCount,
        publishedAt: step.saysWhen ? NOW : null,
      }),
      isListed: step.isListed,
      follows: published.length - 1,
      isRecorded: step.isRecorded,
      isBad: step.isBad,
      schema: next,
      keepsColumns: step.schemaStep === 'same' || step.schemaStep === 'adds',
    });
    kinds.push('publish', ...repeated(step.isReplaced));
  }
  if (isLastWithdrawn) {
    published.push(...afterLast(published));
    kinds.push('publish', 'withdraw');
  }
  return { ...timed(published, kinds, minutesAgo), schemas, badContents: new Set(), listLag: 0 };
}

function repeated(isReplaced: boolean): readonly Move['kind'][] {
  return isReplaced ? ['replace'] : [];
}

/** One more version, with the schema of the last. */
function afterLast(published: readonly Published[]): readonly Published[] {
  const last = published.at(-1);
  if (last === undefined) return [];
  const record = version('parcels', last.record.version + 1, { schemaVersion: last.schema.schemaVersion });
  return [{ ...last, record, isListed: true, follows: published.length - 1, isRecorded: true, isBad: false }];
}

/** Ten minutes lie between two moves. */
function timed(
  published: readonly Published[],
  kinds: readonly Move['kind'][],
  minutesAgo: number,
): Pick<ModelHistory, 'published' | 'moves'> {
  let place = -1;
  const moves = kinds.map((kind, index): Move => {
    const at = ago((minutesAgo + (kinds.length - 1 - index) * 10) * MINUTE_MS);
    if (kind === 'publish') place += 1;
    return kind === 'publish' ? { kind, at, place } : { kind: kind === 'replace' ? kind : 'withdraw', at };
  });
  const when = moves.filter((move) => move.kind === 'publish').map(({ at }) => at);
  const dated = published.map((one, index) => {
    const { record } = one;
    const publishedAt = record.publishedAt === null ? null : (when[index] ?? null);
    return { ...one, record: { ...record, publishedAt } };
  });
  return { published: dated, moves };
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

const pasts = fc.record({
  hasKeys: mostly(true, false),
  steps: fc.array(publishing, { maxLength: 7 }),
  isFirstReplaced: mostly(false, true),
  isLastWithdrawn: mostly(false, true),
  minutesAgo: fc.constantFrom(1, 12, 120),
});

/** A member of the list, by a number that shrinks. */
function at<T>(items: readonly T[], index: number): T {
  const item = items[index % items.length];
  if (item === undefined) throw new Error('The list is empty.');
  return item;
}

const SUBSCRIPTIONS = ['sub_1', 'sub_2'] as const;

/** The choices for one catch-up, with numbers for those that depend on the past. */
const picks = fc.record({
  table: fc.option(
    fc.record({
      loadedAfter: fc.nat(9),
      appliedUpTo: fc.nat(9),
      through: fc.constantFrom('sub_1', 'sub_2', null),
      digestKind: fc.constantFrom('stated', 'computed', null),
      hasOldSchema: mostly(false, true),
    }),
  ),
  shown: fc.uniqueArray(
    fc.record({
      subscriptionId: fc.constantFrom(...SUBSCRIPTIONS),
      after: fc.nat(9),
      isByTime: fc.boolean(),
      hasDigest: fc.boolean(),
      saysSchema: fc.boolean(),
      says: mostly<'rows' | 'nothing' | 'other rows'>('rows', 'nothing', 'other rows'),
      isBad: mostly(false, true),
    }),
    { selector: ({ subscriptionId }) => subscriptionId, maxLength: 2 },
  ),
  members: fc.constantFrom<readonly ('sub_1' | 'sub_2')[]>(['sub_1'], ['sub_1', 'sub_2']),
  announced: fc.option(fc.nat(10)),
  read: fc.record({ after: fc.nat(9), known: fc.nat(12), listedAfter: fc.option(fc.nat(9)) }),
  isOwedToFormer: mostly(false, true),
  absentForMinutes: fc.option(fc.constantFrom(30, 120)),
  resyncNumber: mostly(0, 1),
  // Not less often: where a metadata refresh is pending for a table that is not listed, manifests are read.
  refreshesRequested: mostly(1, 0),
  failed: fc.option(fc.record({ isSnapshot: fc.boolean(), at: fc.nat(9), isOngoing: fc.boolean() })),
  schemaChanges: fc.constantFrom<PlanInput['schemaChanges']>('reload', 'alter'),
});

type Picked = Made<typeof picks>;

interface Given {
  readonly start: Start;
  readonly model: ModelHistory;
}

function given(model: ModelHistory, picked: Picked): Given {
  const shown = picked.shown
    .filter(({ subscriptionId }) => picked.members.includes(subscriptionId))
    .map(({ subscriptionId, after, isByTime, hasDigest, saysSchema, says }) => {
      const how = { subscriptionId, move: after % model.moves.length, readAt: NOW, isByTime, hasDigest };
      const truly = publishedAt(stateAfter(shownBy(how, model).move, model).content.place, model);
      const rowCount = { rows: truly.record.rowCount, nothing: null, 'other rows': 7 }[says];
      const schemaVersion = saysSchema ? truly.schema.schemaVersion : null;
      return shownBy({ ...how, changed: { schemaVersion, rowCount } }, model);
    });
  const contents = shown.map(({ listedEntry, move }) => {
    const { record } = publishedAt(stateAfter(move, model).content.place, model);
    return contentOf(listedEntry.entry, record.publishedAt);
  });
  const badContents = contents.filter((_, index) => picked.shown[index]?.isBad);
  const { observed, rows } = tableOf(model, picked);
  const input = planInput({
    desired: desiredStateOf(model, picked),
    observed,
    failure: failureOf(model, picked, contents),
    listedEntries: null,
    absentSince: absentSinceOf(model, picked),
    schemaChanges: picked.schemaChanges,
  });
  return { start: { input, rows, shown }, model: { ...model, badContents: new Set(badContents) } };
}

/** Loaded from what the service had after a move, and moved on by changes since, also where these were of replaced content. */
function tableOf(
  model: ModelHistory,
  { table: picked }: Picked,
): { readonly observed: ObservedTable | null; readonly rows: Content | null } {
  if (picked === null) return { observed: null, rows: null };
  const loadedAfter = picked.loadedAfter % model.moves.length;
  const loaded = stateAfter(loadedAfter, model).content;
  const appliedUpTo = Math.max(loadedAfter, picked.appliedUpTo % model.moves.length);
  const place = Math.max(loaded.place, stateAfter(appliedUpTo, model).content.place);
  const { record, schema: truly } = publishedAt(place, model);
  const from = publishedAt(loaded.place, model).record.version;
  const asking = model.moves.findLastIndex((move, index) => index <= loadedAfter && asksForReload(move));
  const marks = SUBSCRIPTIONS.map((id) => [id, reloadOf(id, Math.max(asking, 0), model, {})] as const);
  const observed = table(record.version, {
    ...shapeOf(truly),
    ...(picked.hasOldSchema ? { schemaVersion: '0' } : {}),
    rowCount: record.rowCount ?? 10,
    publishedAt: record.publishedAt,
    snapshotVersion: from,
    snapshotDigest: snapshotDigest(entry('parcels', from, textOf(loaded)).files) ?? '',
    digestKind: picked.digestKind,
    loadedThrough: picked.through,
    loadedAt: minuteAfter(loadedAfter, model),
    reloads: new Map(asking === -1 ? [] : marks),
  });
  return { observed, rows: { place, generation: loaded.generation } };
}

function minuteAfter(move: number, { moves }: ModelHistory): Date {
  return new Date(at(moves, move).at.getTime() + MINUTE_MS);
}

/** Every reload that an event asked for is known, whether the table satisfies it or not. */
function desiredStateOf(model: ModelHistory, picked: Picked): DesiredState {
  const { published, moves } = model;
  const asking = moves.flatMap((move, index) => (asksForReload(move) ? [index] : []));
  const reloads = asking.flatMap((move) =>
    picked.members.map((id) => reloadOf(id, move, model, knownWhenRead(move, picked, model))),
  );
  const left = picked.isOwedToFormer ? asking.slice(-1) : [];
  const owed = left.map((move) => ({ ...reloadOf('sub_3', move, model, {}), subscriptionId: 'sub_3' }));
  const announced =
    picked.announced === null
      ? null
      : at(published, picked.announced).record.version + (picked.announced > 8 ? 1 : 0);
  return desired({
    members: new Map(picked.members.map((id) => [id, member({ announced })])),
    formerMembers: new Map(left.map(() => ['sub_3', formerMember()])),
    reloads: [...reloads, ...owed],
    resyncNumber: picked.resyncNumber,
    refreshesRequested: picked.refreshesRequested,
  });
}

/** An event is read some time after it was created, and the list of versions some time after that. */
function knownWhenRead(move: number, { read }: Picked, model: ModelHistory): Partial<Reload> {
  const last = model.moves.length - 1;
  const readAfter = Math.min(move + read.after, last);
  const newestBy = (until: number): number =>
    Math.max(...stateAfter(until, model).places.map((place) => publishedAt(place, model).record.version));
  const listedAfter = read.listedAfter === null ? null : Math.min(readAfter + read.listedAfter, last);
  return {
    readAt: minuteAfter(readAfter, model),
    knownVersion: Math.min(read.known, newestBy(readAfter)),
    listedVersion: listedAfter === null ? null : newestBy(listedAfter),
  };
}

function absentSinceOf(model: ModelHistory, picked: Picked): PlanInput['absentSince'] {
  const { absentForMinutes } = picked;
  if (absentForMinutes === null) return new Map();
  const versions = model.published.flatMap(({ record: { version: one } }) => [one, one + 1]);
  return new Map(versions.map((one) => [one, ago(absentForMinutes * MINUTE_MS)]));
}

function failureOf(
  { published }: ModelHistory,
  { failed }: Picked,
  contents: readonly string[],
): PlanInput['failure'] {
  if (failed === null) return null;
  const ofSnapshot = contents.length === 0 ? [] : [at(contents, failed.at)];
  const ofChanges = [changesContentOf(at(published, failed.at).record)];
  return failure({
    contents: failed.isSnapshot ? ofSnapshot : ofChanges,
    retryAt: new Date(NOW.getTime() + (failed.isOngoing ? 1 : 0)),
  });
}

const courses = fc.tuple(pasts, picks).map(([past, picked]) => given(modelOf(past), picked));

/** Each plan reads something, learns of one version, asks for a reload, gets the table on, or ends it. */
function maxSteps({ published, moves }: ModelHistory): number {
  return 12 + 3 * published.length + 3 * moves.length;
}

function always<Given>(property: fc.IProperty<Given>): void {
  fc.assert(property, { seed: SEED, numRuns: NUM_RUNS });
}

describe('the course of a catch-up', () => {
  it('ends, with only right steps', () => {
    const ends = new Map<string, number>();
    always(
      fc.property(courses, ({ start, model }) => {
        const { end, steps } = execute(start, model, maxSteps(model));
        const reported = steps.map((one) => (one.kind === 'wait' ? `wait: ${one.why}` : one.kind));
        for (const kind of new Set([end, ...reported])) ends.set(kind, (ends.get(kind) ?? 0) + 1);
      }),
    );
    // Shows that the pasts are as various as they should be.
    for (const kind of [
      'keep',
      'wait: not-listed',
      'wait: manifest-lags',
      'wait: entry-unlisted',
      'wait: list-lags',
      'report-failure',
      'failed',
      'violation',
      'load',
      'apply',
      'ask-reload',
      'void-announced',
    ]) {
      expect(ends.get(kind) ?? 0, kind).toBeGreaterThan(0);
    }
  });

  it('ends at the same version where manifests are read only on demand, and often reads none', () => {
    let unasked = 0;
    always(
      fc.property(courses, ({ start, model }) => {
        const early = execute(start, model, maxSteps(model));
        const late = execute(start, model, maxSteps(model) + 1, { areOffersUnread: true });
        if (!late.steps.some(({ kind }) => kind === 'read-manifest') && late.steps.length > 1) unasked += 1;
        // Failures depend on the path that is taken, and of two equally long paths either may be taken.
        if ([early.end, late.end].some((end) => end === 'failed' || end === 'report-failure')) return;
        expect(late.end).toBe(early.end);
        expect(late.input.observed?.version).toBe(early.input.observed?.version);
      }),
    );
    expect(unasked).toBeGreaterThan(NUM_RUNS / 20);
  });

  it('leaves no work: a second catch-up of the same feed commits nothing', () => {
    always(
      fc.property(courses, ({ start, model }) => {
        const first = execute(start, model, maxSteps(model));
        if (first.end === 'failed') return;
        const input = { ...first.input, inapplicable: new Map<number, string>() };
        const second = execute({ ...start, input, rows: first.rows }, model, maxSteps(model));
        expect(second.input.observed).toEqual(first.input.observed);
      }),
    );
  });

  it('F57 waits for a version only as far as changes lead, with no reload of the table owed', () => {
    let waiting = 0;
    always(
      fc.property(courses, ({ start, model }) => {
        const course = execute(start, model, maxSteps(model));
        const { observed, desired: state } = course.input;
        if (course.end !== 'wait' && course.end !== 'report-failure') return;
        if (pendingReloads(observed, state).length > 0) return;
        expect(isNextInReach(course, model)).toBe(false);
        waiting += 1;
      }),
    );
    expect(waiting).toBeGreaterThan(NUM_RUNS / 20);
  });

  it('states the earliest useful retry, never before now, where only time has to pass', () => {
    let timed = 0;
    always(
      fc.property(courses, ({ start, model }) => {
        const last = execute(start, model, maxSteps(model)).steps.at(-1);
        if (last?.kind !== 'wait' || last.until === null) return;
        expect(last.until.getTime()).toBeGreaterThan(NOW.getTime());
        timed += 1;
      }),
    );
    expect(timed).toBeGreaterThan(0);
  });

  it('reaches the head wherever the manifest is complete and nothing is suspended or bad', () => {
    always(
      fc.property(pasts, picks, fc.boolean(), (past, picked, isByTime) => {
        const made = modelOf({ ...past, minutesAgo: 120 });
        const published = made.published.map((one) => ({ ...one, isBad: false, isListed: true }));
        const listed = new Set([...made.schemas, ...published.map((one) => one.schema)]);
        const schemas = [...listed].sort(
          (left, right) => Number(right.schemaVersion) - Number(left.schemaVersion),
        );
        const { start, model } = given(
          { ...made, published, schemas },
          {
            ...picked,
            shown: picked.members.map((subscriptionId) => ({
              subscriptionId,
              after: made.moves.length - 1,
              // A reload that is asked for only now is reflected by time a while later.
              isByTime: isByTime && !past.isLastWithdrawn && !picked.isOwedToFormer,
              hasDigest: true,
              saysSchema: true,
              says: 'rows',
              isBad: false,
            })),
            absentForMinutes: 120,
            refreshesRequested: 1,
            failed: null,
          },
        );
        const course = execute(start, model, maxSteps(model));
        const { content } = stateNow(model);
        const newest = publishedAt(content.place, model);
        expect(course.end).toBe('keep');
        expect(course.rows).toEqual(content);
        expect(course.input.observed?.version).toBe(newest.record.version);
        expect(course.input.observed?.columns.map(({ name }) => name)).toEqual(
          newest.schema.columns.map(({ name }) => name),
        );
      }),
    );
  });

  it('only reports the suspension of a suspended dataset', () => {
    always(
      fc.property(courses, ({ start, model }) => {
        const observed = { ...start, input: { ...start.input, suspension: suspension() } };
        expect(execute(observed, model, 1).steps).toEqual([
          { kind: 'report-suspension', suspension: suspension() },
        ]);
      }),
    );
  });

  it('retires or leaves the table of a dataset without members', () => {
    always(
      fc.property(courses, ({ start, model }) => {
        const { input } = start;
        const left = { ...start, input: { ...input, desired: { ...input.desired, members: new Map() } } };
        expect(execute(left, model, 1).end).toBe(input.observed === null ? 'leave' : 'retire');
      }),
    );
  });
});

/** Whether the next listed version follows the table's in the most usual way, and nothing of it failed. */
function isNextInReach({ input, rows }: Course, { published }: ModelHistory): boolean {
  const { observed, metadata, failure: failed } = input;
  const newer = metadata?.versions.filter((one) => one.version > (observed?.version ?? 0)) ?? [];
  const next = newer.at(-1);
  const truth = published.find(({ record }) => record === next);
  if (next === undefined || truth === undefined || observed === null || rows === null) return false;
  return (
    metadata?.versions.some((one) => one.version === observed.version) === true &&
    observed.keyColumns.length > 0 &&
    truth.isRecorded &&
    failed?.contents.includes(changesContentOf(next)) !== true &&
    !next.resyncRequired &&
    next.previousVersion === observed.version &&
    next.schemaVersion === observed.schemaVersion
  );
}

describe('plan', () => {
  it('plans for any input, and reports only an unlisted schema as a violation by the service', () => {
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
    const anyMetadata = fc.record({
      newerThan: fc.option(anyNumber),
      readAt: fc.constant(NOW),
      entriesBefore: fc.constantFrom(EVERY_ENTRY, new Set<never>()),
      versions: fc.array(anyVersion, { maxLength: 5 }),
      schemas: fc.array(anySchema, { maxLength: 4 }),
    });
    const input = fc.tuple(courses, fc.option(anyMetadata), fc.option(anyNumber), fc.boolean());
    fc.assert(
      fc.property(input, ([{ start }, metadata, tableVersion, isMember]) => {
        const observed = tableVersion === null ? null : table(tableVersion);
        const members = isMember ? start.input.desired.members : new Map();
        const listedEntries = start.shown.map(({ listedEntry }) => listedEntry);
        const anything = {
          ...start.input,
          listedEntries,
          metadata,
          observed,
          desired: { ...start.input.desired, members },
        };
        try {
          expect(plan(anything).kind).toMatch(/./);
        } catch (error) {
          expect(error).toBeInstanceOf(ContractViolationError);
        }
      }),
      { seed: SEED, numRuns: NUM_RUNS },
    );
  });
});
