/** Which content of a dataset waits for an operator, and which is not fetched again meanwhile. */

import { describe, expect, it } from 'vitest';
import { baseOf, type Candidate } from '../../src/model/candidate.ts';
import { NO_LIMITS } from '../../src/model/gate.ts';
import { noteAwaiting, suspensionOfCandidate } from '../../src/sync/candidates.ts';
import { identitiesOfEntry, identitiesOfPath, waitingContent } from '../../src/sync/plan/candidate.ts';
import { changesContentOf, contentOf, pathContentOf } from '../../src/sync/plan/content.ts';
import type { PlanInput } from '../../src/sync/plan/step.ts';
import { chain, planOf, stepOf } from '../support/planning.ts';
import { smallWorld } from '../support/small-world.ts';
import {
  announcing,
  candidate,
  desired,
  entry,
  failure,
  LONG_AGO,
  listedEntry,
  metadata,
  NOW,
  table,
  version,
} from '../support/sync-values.ts';

describe('content that takes the place of a candidate', () => {
  const observed = table(1);
  const before = candidate({ version: 3, base: baseOf(observed), alike: ['content of 3'] });
  const judged = { ...before.judged, digest: 'b'.repeat(64) };
  const limits = { ...NO_LIMITS, removedRows: { rows: 0, share: null } };

  const noteBeside = async (known: Candidate): Promise<Candidate> => {
    const { parts } = await smallWorld();
    const state = { desired: desired(), observed, failure: null, suspension: suspensionOfCandidate(known) };
    const { content } = before;
    return await noteAwaiting(
      { known: state, version: 2, judged, identities: ['content of 2'], content },
      parts,
    );
  };

  it('remembers the replaced candidate, so that two manifests in turn cause no repeated fetch', async () => {
    const after = await noteBeside(before);
    expect(after).toMatchObject({ version: 2, later: [{ version: 3, alike: ['content of 3'] }] });
    expect(waitingContent(after, limits)).toEqual(new Set(['content of 2', 'content of 3']));
  });

  it('forgets a candidate that was judged against another state of the table', async () => {
    expect((await noteBeside({ ...before, base: 'another' })).later).toEqual([]);
  });
});

describe('versions after a candidate of changes, where each version is a commit of its own', () => {
  const limits = { ...NO_LIMITS, removedRows: { rows: 5, share: null } };
  const versions = chain(2, 6);
  const upTo = (last: number) => versions.filter(({ version }) => version <= last);
  const waits = (last: number, removed: number) => ({
    version: last,
    counts: { before: 10, after: 10 - removed, added: 0, changed: 0, removed, isByKey: true },
    digest: `${last}`.repeat(64),
    alike: identitiesOfPath(upTo(last)),
  });
  const first = waits(2, 6);
  const planBeside = (later: Candidate['later'], known = versions) => {
    const identity = pathContentOf(upTo(2));
    const content = { kind: 'changes', versions: [{ version: 2, pages: [], bytes: 1, sha256: '' }] } as const;
    const judged = { ...candidate().judged, counts: first.counts };
    const beside = candidate({ version: 2, judged, identity, content, alike: first.alike, later });
    return planOf({
      observed: table(1),
      desired: desired(announcing(6)),
      metadata: metadata([...chain(1, 1), ...known]),
      suspension: suspensionOfCandidate(beside),
      commitsEveryVersion: true,
      limits,
    });
  };

  it('judges later versions as sums with the candidate, from the shortest sum not known to wait', () => {
    expect(planBeside([])).toMatchObject({ kind: 'apply', versions, shortestSum: 2 });
    expect(planBeside([waits(3, 8), waits(4, 9)])).toMatchObject({ versions, shortestSum: 4 });
    // Only the newest of many sums are remembered.
    expect(planBeside([waits(4, 9)])).toMatchObject({ versions, shortestSum: 4 });
  });

  it('suspends the dataset where every sum is known to wait, also where the path was cut on the way', () => {
    expect(planBeside([waits(6, 7)])).toMatchObject({ kind: 'report-suspension' });
    const cut = { ...waits(4, 7), alike: [...waits(4, 7).alike, ...identitiesOfPath(versions)] };
    expect(planBeside([cut])).toMatchObject({ kind: 'report-suspension' });
  });

  it('judges later versions again up to a sum that raised limits pass', () => {
    expect(planBeside([waits(3, 4), waits(6, 7)])).toMatchObject({ versions, shortestSum: 2 });
  });

  it('judges later versions from the first sum with other content', () => {
    const anew = chain(4, 6, { rowCount: 12 });
    expect(planBeside([waits(3, 8), waits(4, 9)], [...upTo(3), ...anew])).toMatchObject({ shortestSum: 3 });
  });
});

const REMOVALS_WAIT = { ...NO_LIMITS, removedRows: { rows: 0, share: null } };
const VERSIONS = chain(1, 3);
const NOT_APPLICABLE = { inapplicable: new Map([[2, 'a reason']]) };
/** The table has version 1, and version 3 was announced. */
const planBeside = (waiting: Partial<Candidate>, changed: Partial<PlanInput>) =>
  stepOf({
    observed: table(1),
    desired: desired(announcing(3)),
    metadata: metadata(VERSIONS),
    suspension: suspensionOfCandidate(candidate(waiting)),
    limits: REMOVALS_WAIT,
    ...changed,
  });
const snapshotOf = (number: number): Partial<Candidate> => {
  const listed = listedEntry(number);
  const [own = '', ...others] = identitiesOfEntry(listed, metadata(VERSIONS));
  return {
    version: number,
    identity: own,
    alike: [own, ...others],
    content: { kind: 'snapshot', listed, reloads: new Map(), files: [] },
  };
};
const changesTo = (last: number): Partial<Candidate> => {
  const path = VERSIONS.filter((one) => one.version > 1 && one.version <= last);
  return {
    version: last,
    identity: pathContentOf(path),
    alike: identitiesOfPath(path),
    content: {
      kind: 'changes',
      versions: path.map((one) => ({ version: one.version, pages: [], bytes: 1, sha256: '' })),
    },
  };
};

describe('a candidate', () => {
  const APPROVED = { approvedAt: NOW };
  const resultOf = (waiting: Partial<Candidate>, changed: Partial<PlanInput> = {}): string =>
    planBeside(waiting, { listedEntries: [listedEntry(2)], ...changed });
  const failedAs = (content: string) => ({ failure: failure({ contents: [content] }) });
  const second = version('parcels', 2);

  it('commits an approved candidate, whatever newer versions there are', () => {
    expect(resultOf({ ...snapshotOf(2), ...APPROVED })).toBe('load 2');
    expect(resultOf({ ...changesTo(2), ...APPROVED })).toBe('apply 2');
  });

  it('commits a candidate once the limits of its gate were raised', () => {
    expect(resultOf(snapshotOf(2), { limits: NO_LIMITS })).toBe('load 2');
  });

  it.each<[string, Partial<Candidate>, Partial<PlanInput>]>([
    ['its table was changed since', { base: 'another' }, {}],
    ['its table is gone', {}, { observed: null }],
    ['nothing needs its version any more', {}, { desired: desired(), metadata: metadata(chain(1, 1)) }],
    ['its version is not listed any more', {}, { metadata: metadata([...chain(1, 1), ...chain(3, 3)]) }],
    [
      'its version was published anew',
      {},
      {
        metadata: metadata([
          ...chain(1, 1),
          version('parcels', 2, { publishedAt: LONG_AGO }),
          ...chain(3, 3),
        ]),
      },
    ],
    [
      'the record of its version states other rows',
      {},
      { metadata: metadata([...chain(1, 1), version('parcels', 2, { rowCount: 11 }), ...chain(3, 3)]) },
    ],
  ])('forgets an approved candidate where %s', (_, waiting, changed) => {
    expect(resultOf({ ...snapshotOf(2), ...APPROVED, ...waiting }, changed)).toBe('drop-candidate');
  });

  it.each<[string, Partial<Candidate>, Partial<PlanInput>]>([
    ['a snapshot', snapshotOf(2), failedAs(contentOf(entry('parcels', 2), NOW))],
    ['changes with values that cannot be mirrored', changesTo(2), failedAs(changesContentOf(second))],
    ['changes that do not fit its table', changesTo(2), { inapplicable: new Map([[2, 'a reason']]) }],
    ['several changes of which one does not fit', changesTo(3), { inapplicable: new Map([[3, 'a reason']]) }],
  ])('forgets a candidate of failed content with its approval: %s', (_, waiting, changed) => {
    expect(resultOf({ ...waiting, ...APPROVED }, changed)).toBe('drop-candidate');
  });

  it('reads the metadata where the versions from the candidate on are unread', () => {
    const unread = { ...metadata(chain(3, 3)), newerThan: 2 };
    expect(resultOf(snapshotOf(2), { metadata: null })).toBe('read-metadata');
    expect(resultOf(snapshotOf(2), { metadata: unread })).toBe('read-metadata');
  });
});

describe('snapshots beside a candidate', () => {
  it('loads a snapshot of other content than the candidate, though it is older', () => {
    const listedEntries = [listedEntry(3), listedEntry(2)];
    expect(planBeside(snapshotOf(3), { ...NOT_APPLICABLE, listedEntries })).toBe('load 2');
    expect(planBeside(snapshotOf(2), { ...NOT_APPLICABLE, listedEntries })).toBe('load 3');
    expect(planBeside(snapshotOf(3), { ...NOT_APPLICABLE, listedEntries: [listedEntry(3)] })).toBe(
      'report-suspension',
    );
  });

  it('loads the snapshot of a candidate of changes only where an operator or the service demands a reload', () => {
    const offered = { desired: desired(announcing(2)), listedEntries: [listedEntry(2)] };
    const known = { metadata: metadata(chain(1, 2)) };
    expect(planBeside(changesTo(2), { ...offered, ...known })).toBe('report-suspension');
    const demanded = desired({ ...announcing(2), resyncNumber: 1 });
    expect(planBeside(changesTo(2), { ...offered, ...known, desired: demanded })).toBe('load 2');
  });

  it('does not load a waiting snapshot because an operator demands a reload', () => {
    const demanded = desired({ ...announcing(2), resyncNumber: 1 });
    const offered = { desired: demanded, listedEntries: [listedEntry(2)], metadata: metadata(chain(1, 2)) };
    expect(planBeside(snapshotOf(2), offered)).toBe('report-suspension');
  });

  it('applies changes of other content in place of a waiting snapshot, and none that wait as well', () => {
    const listedEntries = [listedEntry(2)];
    expect(planBeside(snapshotOf(2), { listedEntries })).toBe('apply 2,3');
    const { alike = [] } = changesTo(3);
    const counts = { before: 10, after: 9, added: 0, changed: 0, removed: 1, isByKey: true };
    const later = [{ version: 3, counts, digest: '3'.repeat(64), alike }];
    expect(planBeside({ ...snapshotOf(2), later }, { listedEntries })).toBe('report-suspension');
  });
});
