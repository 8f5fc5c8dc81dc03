/** What a manifest says that no event has told. Where it matters what the wants then are, a real checkpoint keeps them. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import type { Held, HeldDataset } from '../../src/destination/destination.ts';
import type { EventId } from '../../src/model/event.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import type { Want, WantChange } from '../../src/model/want.ts';
import { auditChanges, membersLackedBy } from '../../src/sync/follow/audit.ts';
import { cursorAfter, foldEvents } from '../../src/sync/follow/fold.ts';
import { LONGEST_LAG_MS } from '../../src/sync/plan/offer-rules.ts';
import { openNew } from '../support/checkpoint-files.ts';
import { SEED } from '../support/seed.ts';
import { digestOf, entry, event, id, NOW, table, want } from '../support/sync-values.ts';

const datasetId = 'parcels';
const atLeast = (version: number, eventNumber?: bigint) => ({
  kind: 'at-least',
  datasetId,
  version,
  ...(eventNumber === undefined ? {} : { eventNumber }),
});
const member = { kind: 'member', datasetId };
const look = { kind: 'look', datasetId };
const reload = (eventNumber: bigint) => ({ kind: 'reload', datasetId, eventNumber, version: 4 });

interface Given {
  /** Every event up to this one is reflected; null: the manifest does not say. */
  readonly reflects: EventId | null;
  /** Up to where the log was read. */
  readonly cursor?: EventId | null;
  readonly want?: Want | null;
  readonly table?: HeldDataset | null;
  readonly listed?: readonly ManifestEntry[];
  readonly lacked?: readonly string[];
  readonly now?: Date;
  /** When the log last told something. */
  readonly cursorAt?: Date | null;
}

/** Of a log that tells nothing any more. */
const QUIET_SINCE = new Date(NOW.getTime() - LONGEST_LAG_MS);

const manifestOf = ({ reflects, listed = [entry(datasetId, 4)] }: Given) => ({
  subscriptionId: 'sub_1',
  lastEventId: reflects,
  datasets: listed,
});

function auditedOf({
  want: wanted = null,
  table: held = null,
  cursor = id(9),
  cursorAt = QUIET_SINCE,
  now = NOW,
}: Given) {
  const datasets = new Map(held === null ? [] : [[datasetId, held]]);
  const destination: Held = { service: null, datasets };
  const wants = new Map(wanted === null ? [] : [[datasetId, wanted]]);
  return { cursor, cursorAt, wants, held: destination, now };
}

function audit(given: Given): readonly WantChange[] {
  return auditChanges(manifestOf(given), given.lacked ?? [], auditedOf(given));
}

const former = (removal: bigint | null, changed: Partial<Want> = {}) =>
  want({ members: new Set(), formerMembers: new Map([['sub_1', removal]]), atLeastVersion: 4, ...changed });

describe('a dataset that the manifest lists', () => {
  it.each([
    ['as it is wanted', want({ atLeastVersion: 4 })],
    ['older than it is wanted', want({ atLeastVersion: 5 })],
  ])('%s asks for nothing', (_, wanted) => {
    expect(audit({ reflects: id(9), want: wanted })).toEqual([]);
    expect(audit({ reflects: null, want: wanted })).toEqual([]);
  });

  it('and no event has named is a member', () => {
    expect(audit({ reflects: id(9) })).toEqual([member, atLeast(4, 9n)]);
    expect(audit({ reflects: null })).toEqual([member, atLeast(4)]);
  });

  it('is a member at the place of a manifest that is older than the log', () => {
    expect(audit({ reflects: id(8) })).toEqual([{ ...member, eventNumber: 8n }, atLeast(4, 8n)]);
  });

  it('newer than it is wanted is wanted at that version, at its place among the reloads', () => {
    expect(audit({ reflects: id(9), want: want({ atLeastVersion: 3 }) })).toEqual([atLeast(4, 9n)]);
    expect(audit({ reflects: null, want: want() })).toEqual([atLeast(4)]);
  });

  it('raises no version under a reload, where the manifest does not say how far it goes', () => {
    const wanted = want({ atLeastVersion: 2, reloadAfter: new Map([['sub_1', 7n]]) });
    expect(audit({ reflects: null, want: wanted, table: table(9) })).toEqual([]);
    const satisfied = table(2, { reloads: new Map([['sub_1', 7n]]) });
    expect(audit({ reflects: null, want: wanted, table: satisfied })).toEqual([atLeast(4)]);
    expect(audit({ reflects: id(9), want: wanted })).toEqual([atLeast(4, 9n)]);
  });
});

describe('a dataset of another schema than its table', () => {
  const wanted = want({ atLeastVersion: 4 });
  const listed = [{ ...entry(datasetId, 4), schemaVersion: '2' }];

  it('W23 at the same version is looked at', () => {
    expect(audit({ reflects: id(9), want: wanted, table: table(4), listed })).toEqual([look]);
    expect(audit({ reflects: null, want: wanted, table: table(4), listed })).toEqual([look]);
  });

  it.each([
    ['where there is no table yet', wanted, null, listed],
    ['at another version', wanted, table(3), listed],
    ['where the manifest does not say', wanted, table(4), [{ ...entry(datasetId, 4), schemaVersion: null }]],
    ['where the table does not say', wanted, table(4, { schemaVersion: null }), listed],
    ['where a look is owed already', { ...wanted, looksAsked: 1 }, table(4), listed],
  ])('is not looked at %s', (_, given, held, entries) => {
    expect(audit({ reflects: id(9), want: given, table: held, listed: entries })).toEqual([]);
  });
});

describe('a dataset at a lower version than its table', () => {
  const lower = { want: want({ atLeastVersion: 6 }), table: table(6) };
  const later = (durationMs: number) => new Date(NOW.getTime() + durationMs);

  it('W32 is looked at, where the manifest is no older than the table', () => {
    expect(audit({ reflects: id(9), ...lower })).toEqual([look]);
    const now = later(LONGEST_LAG_MS);
    expect(audit({ reflects: null, ...lower, now })).toEqual([look]);
    expect(audit({ reflects: null, ...lower, now: later(-LONGEST_LAG_MS) })).toEqual([look]);
  });

  it('W32 is looked at as it enters a subscription, too', () => {
    const other = want({ atLeastVersion: 6, members: new Set(['sub_2']) });
    expect(audit({ reflects: id(9), ...lower, want: other })).toEqual([member, look]);
  });

  it.each([
    ['where the manifest is older than the log', { reflects: id(8), ...lower }],
    ['where it may lag, for all that it says', { reflects: null, ...lower, now: later(LONGEST_LAG_MS - 1) }],
    [
      'where a reload is waited for',
      { reflects: id(9), ...lower, want: want({ atLeastVersion: 4, reloadAfter: new Map([['sub_1', 9n]]) }) },
    ],
    ['where a look is owed already', { reflects: id(9), ...lower, want: { ...lower.want, looksAsked: 1 } }],
    ['at the same version', { reflects: id(9), ...lower, table: table(4) }],
  ])('is not looked at %s', (_, given: Given) => {
    expect(audit(given)).toEqual([]);
  });
});

describe('a dataset that was removed and is listed', () => {
  it.each([
    ['is back where the manifest reflects the removal and all else', id(9), former(7n), [member]],
    ['is back where the manifest reflects just the removal', id(9), former(9n), [member]],
    [
      'stands at its place in a manifest older than the log',
      id(8),
      former(7n),
      [{ ...member, eventNumber: 8n }],
    ],
    ['is not back in a manifest from before the removal', id(6), former(7n), []],
    ['is back in one that does not say how far it goes, once the log is quiet', null, former(7n), [member]],
    ['is back in one that does not say, where an audit had decided', null, former(null), [member]],
    ['is back where an audit had decided', id(9), former(null), [member]],
  ])('%s', (_, reflects, wanted, changes) => {
    expect(audit({ reflects, want: wanted })).toEqual(changes);
  });

  it('is not back in one that does not say how far it goes, against an event that may be newer', () => {
    const cursorAt = new Date(QUIET_SINCE.getTime() + 1);
    expect(audit({ reflects: null, want: former(7n), cursorAt })).toEqual([]);
    expect(audit({ reflects: id(9), want: former(7n), cursorAt })).toEqual([member]);
  });

  it.each([
    ['as of the manifest', id(9), reload(9n)],
    ['as of the position, where the manifest does not say', null, reload(9n)],
  ])('loads again what is left of its table, %s', (_, reflects, asked) => {
    const left = { want: former(null), table: table(6) };
    expect(audit({ reflects, ...left })).toEqual([member, asked]);
    expect(audit({ reflects: null, cursor: null, ...left })).toEqual([member, reload(0n)]);
  });

  it('keeps its table where that is the very snapshot, or where another subscription has kept it', () => {
    expect(audit({ reflects: id(9), want: former(7n), table: table(4) })).toEqual([member]);
    const shared = former(7n, { members: new Set(['sub_2']) });
    expect(audit({ reflects: id(9), want: shared, table: table(6) })).toEqual([member, look]);
  });

  it('is a member still where it was removed from another subscription', () => {
    const wanted = want({ atLeastVersion: 4, formerMembers: new Map([['sub_2', 9n]]) });
    expect(audit({ reflects: id(9), want: wanted })).toEqual([]);
  });
});

describe('a member that the manifest lacks', () => {
  const lackedBy = (given: Given) => membersLackedBy(manifestOf(given), auditedOf(given));

  it('is found', () => {
    expect(lackedBy({ reflects: id(9), want: want(), listed: [] })).toEqual([datasetId]);
    expect(lackedBy({ reflects: id(9), want: want(), listed: [entry('permits', 1)] })).toEqual([datasetId]);
    expect(lackedBy({ reflects: null, want: want(), listed: [] })).toEqual([datasetId]);
  });

  it.each([
    ['is listed', { reflects: id(9), want: want() }],
    ['is no member any more', { reflects: id(9), want: former(7n), listed: [] }],
    ['is a member of another', { reflects: id(9), want: want({ members: new Set(['sub_2']) }), listed: [] }],
  ])('is not one that %s', (_, given) => {
    expect(lackedBy(given)).toEqual([]);
  });

  it('is not one that may just have been added, for all that a silent manifest and the log say', () => {
    const silent = { reflects: null, want: want(), table: table(4), listed: [] };
    const recently = new Date(QUIET_SINCE.getTime() + 1);
    expect(lackedBy({ ...silent, cursorAt: recently })).toEqual([]);
    expect(lackedBy({ ...silent, cursorAt: null })).toEqual([datasetId]);
    expect(lackedBy({ ...silent, reflects: id(9), cursorAt: recently })).toEqual([datasetId]);
  });

  it('is one no more, at the place of the manifest among the events', () => {
    const lacked = { want: want(), listed: [], lacked: [datasetId] };
    const noMember = { kind: 'no-member', datasetId };
    expect(audit({ reflects: id(9), ...lacked })).toEqual([noMember]);
    expect(audit({ reflects: id(10), ...lacked })).toEqual([noMember]);
    expect(audit({ reflects: null, ...lacked })).toEqual([noMember]);
    expect(audit({ reflects: id(8), ...lacked })).toEqual([{ ...noMember, eventNumber: 8n }]);
    expect(audit({ reflects: id(8), cursor: null, ...lacked })).toEqual([noMember]);
  });
});

describe('one audit after another', () => {
  it.each([
    ['decided at the newest event', id(9), false],
    ['decided before a manifest that lags', id(8), false],
    ['decided after what the manifest reflects', id(6), true],
    ['for all that the manifest says', null, false],
  ])('drops a member whose membership was %s: %s', async (_, reflects, staysMember) => {
    const checkpoint = await openNew();
    const step = (changes: readonly WantChange[]) =>
      checkpoint.commitFollowStep({
        subscriptionId: 'sub_1',
        subscriptionName: null,
        cursor: id(9),
        isQuiet: false,
        changes,
      });
    step([{ kind: 'member', datasetId, eventNumber: reflects?.number === 9n ? 9n : 7n }]);
    const held = { service: null, datasets: new Map([[datasetId, table(4)]]) };
    const auditOnce = (listed: readonly ManifestEntry[]) => {
      const manifest = { subscriptionId: 'sub_1', lastEventId: reflects, datasets: listed };
      const audited = { cursor: id(9), cursorAt: QUIET_SINCE, wants: checkpoint.wants(), held, now: NOW };
      step(auditChanges(manifest, membersLackedBy(manifest, audited), audited));
      return checkpoint.wants().get(datasetId)?.members.has('sub_1');
    };
    expect(auditOnce([])).toBe(staysMember);
    expect(auditOnce([])).toBe(staysMember);
    // The same manifest that lists it again undoes what an audit alone had decided.
    const undone = reflects?.number !== 8n;
    expect(auditOnce([entry(datasetId, 4, digestOf('anew'))])).toBe(undone);
  });
});

describe('after any events, told or lost', () => {
  /** What happened to which dataset, in order, and whether the log has told it. */
  const pasts = fc.array(
    fc.record({
      dataset: fc.constantFrom('parcels', 'permits', 'zoning'),
      enters: fc.boolean(),
      isTold: fc.boolean(),
    }),
    { minLength: 1, maxLength: 12 },
  );
  type Past = readonly { readonly dataset: string; readonly enters: boolean; readonly isTold: boolean }[];

  const membersAfter = (past: Past): ReadonlySet<string> => {
    const members = new Set<string>();
    for (const { dataset, enters } of past) {
      if (enters) members.add(dataset);
      else members.delete(dataset);
    }
    return members;
  };

  /** Reads what was told of the past, then audits by a manifest that is right as of event `reflects`. Gives the members. */
  function follow(checkpoint: Checkpoint, run: number, past: Past, reflects: number) {
    const subscriptionId = `sub_${run}`;
    const named = (dataset: string) => `${run} ${dataset}`;
    const events = past.flatMap(({ dataset, enters, isTold }, index) =>
      isTold
        ? [event(index + 1, enters ? 'dataset.added' : 'dataset.removed', { datasetId: named(dataset) })]
        : [],
    );
    const cursor = cursorAfter(events, null);
    const step = { subscriptionId, subscriptionName: null, cursor, isQuiet: false };
    checkpoint.commitFollowStep({ ...step, changes: foldEvents(events, subscriptionId, checkpoint.wants()) });
    const listed = [...membersAfter(past.slice(0, reflects))].map((dataset) => entry(named(dataset), 4));
    const manifest = { subscriptionId, lastEventId: id(reflects), datasets: listed };
    const tables = past.map(
      ({ dataset }) => [named(dataset), table(4, { datasetId: named(dataset) })] as const,
    );
    const wants = checkpoint.wants();
    const tableOf = { service: null, datasets: new Map(tables) };
    const audited = { cursor, cursorAt: QUIET_SINCE, wants, held: tableOf, now: NOW };
    const lacked = membersLackedBy(manifest, audited);
    checkpoint.commitFollowStep({ ...step, changes: auditChanges(manifest, lacked, audited) });
    const members = [...checkpoint.wants().values()].filter((one) => one.members.has(subscriptionId));
    return new Set(members.map((one) => one.datasetId.slice(`${run} `.length)));
  }

  it('the members are those of a manifest that reflects them all', async () => {
    const checkpoint = await openNew();
    let run = 0;
    fc.assert(
      fc.property(pasts, (past) => {
        run += 1;
        expect(follow(checkpoint, run, past, past.length)).toEqual(membersAfter(past));
      }),
      { seed: SEED, numRuns: 60 },
    );
  });

  it('the members are right as of the log, whatever a manifest from before it says', async () => {
    const checkpoint = await openNew();
    let run = 0;
    fc.assert(
      fc.property(pasts, fc.nat(12), (past, reflects) => {
        run += 1;
        const told = past.map((one) => ({ ...one, isTold: true }));
        const asOf = Math.min(reflects, told.length);
        expect(follow(checkpoint, run, told, asOf)).toEqual(membersAfter(told));
      }),
      { seed: SEED, numRuns: 60 },
    );
  });
});
