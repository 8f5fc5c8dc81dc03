/** The findings of `verify`: differences in plain words, results, exit codes; and its turns at the mirror. */

import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  exitCodeOfFindings,
  type Finding,
  type Findings,
  verificationOf,
} from '../../src/cli/verify/findings.ts';
import { countMirror } from '../../src/cli/verify/turns.ts';
import { chooseDatasets, comparisonOf, renderVerification } from '../../src/cli/verify/verify.ts';
import type { CountedTable } from '../../src/destination/reader.ts';
import { present } from '../../src/lib/assert.ts';
import { UsageError } from '../../src/model/errors.ts';
import type { Version } from '../../src/model/records.ts';
import { reportOf } from '../../src/reporting/report.ts';
import { type CheckpointContent, NO_CHECKPOINT } from '../../src/reporting/stores.ts';
import { followedAt } from '../support/checkpoint-files.ts';
import { load as configured } from '../support/configuration.ts';
import {
  column,
  load,
  manualClock,
  mirrorIn,
  parquet,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';
import { mirrorOf } from '../support/mirror-seen.ts';
import { desired, membersAt, refusal, suspension, table, version } from '../support/sync-values.ts';

const SOUND: CountedTable = {
  rowCount: 10,
  keys: { nullRows: 0, repeatedRows: 0, example: null },
  strayColumns: [],
  hasRecordedChecksum: true,
};

function finding(changed: Partial<Finding> & { found?: Partial<CountedTable> } = {}): Finding {
  const { found, ...rest } = changed;
  return {
    datasetId: 'parcels',
    comparison: { kind: 'followed' },
    counted: { observed: table(3), table: { ...SOUND, ...found }, damage: null },
    answer: [version('parcels', 3)],
    content: null,
    mending: null,
    ...rest,
  };
}

function findings(one: Finding, changed: Partial<Findings> = {}): Findings {
  const files = { endingProcess: new Map(), copy: null };
  const nothing = { past: [], renewal: null, files, workspaceSuspension: null, problem: null };
  return { mirror: '/m.duckdb', datasets: [one], ...nothing, ...changed };
}

function verified(one: Finding) {
  const all = findings(one);
  const [dataset] = verificationOf(all).datasets;
  return { ...dataset, exitCode: exitCodeOfFindings(all) };
}

describe('a pinned table in verify', () => {
  it.each(['damaged', 'other rows', 'another column'])(
    'advises to resume a pinned table that is %s',
    (what) => {
      const observed = table(3, { pinnedSince: new Date(0) });
      const column = { columnName: 'mine', expected: null, found: 'VARCHAR' };
      const found = {
        damaged: { observed, table: null, damage: 'Corrupt block' },
        'other rows': { observed, table: { ...SOUND, hasRecordedChecksum: false }, damage: null },
        'another column': { observed, table: { ...SOUND, strayColumns: [column] }, damage: null },
      }[what];
      const { differences } = verified(finding({ counted: present(found, 'a case') }));
      expect(differences?.map(({ remedy }) => remedy)).toEqual(['feed-sync resume --dataset parcels']);
    },
  );
});

describe('a dataset in verify', () => {
  it('finds a table equal to the catalog and to the version that the service lists', () => {
    expect(verified(finding())).toMatchObject({ result: 'equal', newestVersion: 3, rows: 10, exitCode: 0 });
  });

  it.each<[string, Partial<CountedTable>]>([
    ['The table parcels has 1 row, and feed_sync.datasets says 10.', { rowCount: 1 }],
    [
      'The table parcels has 2 rows without a whole key.',
      { keys: { nullRows: 2, repeatedRows: 0, example: null } },
    ],
    [
      'The table parcels has 1 row with the key of another row, such as id = A1, part = null.',
      {
        keys: {
          nullRows: 0,
          repeatedRows: 1,
          example: new Map([
            ['id', 'A1'],
            ['part', null],
          ]),
        },
      },
    ],
    [
      'The column "at" of the table parcels is of type VARCHAR, and should be DATE.',
      { strayColumns: [{ columnName: 'at', expected: 'DATE', found: 'VARCHAR' }] },
    ],
    [
      'The column "at" of the table parcels is missing.',
      { strayColumns: [{ columnName: 'at', expected: 'DATE', found: null }] },
    ],
    [
      'The column "at" of the table parcels is not listed in feed_sync.columns.',
      { strayColumns: [{ columnName: 'at', expected: null, found: 'DATE' }] },
    ],
    [
      'The rows of the table parcels are not those that were committed: their checksum differs.',
      { hasRecordedChecksum: false },
    ],
  ])('finds a table that differs from the catalog: %s', (message, found) => {
    const { result, differences, exitCode } = verified(finding({ found }));
    expect({ result, exitCode }).toEqual({ result: 'different', exitCode: 65 });
    const isOfRows = found.strayColumns === undefined;
    const remedy = `feed-sync ${isOfRows ? 'verify --deep' : 'resync'} parcels`;
    expect(differences).toMatchObject([{ message, remedy }]);
  });

  it('reports no other checksum for a table that has too few rows', () => {
    const { differences } = verified(finding({ found: { rowCount: 1, hasRecordedChecksum: false } }));
    expect(differences).toHaveLength(1);
  });

  it.each<[string, string, readonly Version[]]>([
    ['service-row-count', 'resync parcels', [version('parcels', 3, { rowCount: 11 })]],
    ['service-schema', 'once', [version('parcels', 3, { schemaVersion: '2' })]],
    ['service-version', 'resync parcels', []],
  ])('finds a table that differs from the service: %s', (kind, command, answer) => {
    const { result, differences } = verified(finding({ answer }));
    expect(result).toBe('different');
    expect(differences).toMatchObject([{ kind, remedy: `feed-sync ${command}` }]);
  });

  it('finds no difference in facts that the service does not state', () => {
    const silent = version('parcels', 3, { rowCount: null, schemaVersion: null });
    expect(verified(finding({ answer: [silent] })).result).toBe('equal');
  });

  it('counts the versions by which a table is behind', () => {
    const answer = [version('parcels', 7), version('parcels', 5), version('parcels', 3)];
    const message = 'Version 7 is out, 2 versions after the mirrored 3.';
    expect(verified(finding({ answer }))).toMatchObject({
      result: 'behind',
      newestVersion: 7,
      differences: [{ kind: 'behind', message, remedy: 'feed-sync once' }],
      exitCode: 65,
    });
  });

  it.each<[string, Partial<Finding>, object]>([
    [
      'that is desired and has no table',
      { counted: null, answer: null },
      { result: 'behind', differences: [{ kind: 'not-loaded' }], exitCode: 65 },
    ],
    [
      'whose table is missing',
      { counted: { observed: table(3), table: null, damage: null } },
      { result: 'different', differences: [{ kind: 'table-missing' }], rows: null, exitCode: 65 },
    ],
    [
      'that no subscription contains',
      { comparison: { kind: 'not-desired', isApprovalAwaited: true }, answer: null },
      { result: 'different', differences: [{ remedy: 'feed-sync resume --retire' }], exitCode: 65 },
    ],
    [
      'that the settings exclude',
      { comparison: { kind: 'left-out' }, answer: null },
      { result: 'not-followed', differences: [], exitCode: 0 },
    ],
    [
      'that is suspended',
      { comparison: { kind: 'suspended', suspension: suspension() }, answer: null },
      { result: 'not-asked', differences: [], suspension: { code: 'outside_coverage' }, exitCode: 77 },
    ],
    [
      'that the service refuses',
      { answer: refusal({ kind: 'dataset', datasetId: 'parcels' }) },
      { result: 'not-asked', suspension: null, problem: { error: 'refused' }, exitCode: 77 },
    ],
  ])('judges a dataset %s', (_name, changed, expected) => {
    expect(verified(finding(changed))).toMatchObject(expected);
  });
});

it('shows a suspension of the workspace with the command to lift it', () => {
  const all = findings(finding({ answer: null }), { workspaceSuspension: suspension({ kind: 'workspace' }) });
  expect(exitCodeOfFindings(all)).toBe(77);
  const text = renderVerification(verificationOf(all), [suspension({ kind: 'workspace' })], 200);
  expect(text).toContain('feed-sync resume --workspace');
  expect(text).toMatch(/\n1 dataset: 1 not compared with the service\.$/);
});

describe('the datasets that verify compares', () => {
  const stored: CheckpointContent = {
    ...NO_CHECKPOINT,
    followed: new Map([['sub_1', followedAt(null)]]),
    desiredStates: new Map([
      ['parcels', desired()],
      ['zoning', desired({ datasetId: 'zoning' })],
      ['roads', desired({ datasetId: 'roads', members: new Map() })],
    ]),
    suspensions: [suspension({ kind: 'dataset', datasetId: 'zoning' })],
  };
  const mirror = mirrorOf(...['roads', 'rivers'].map((datasetId) => table(1, { datasetId })));
  const known = (excluded: string, checkpoint = stored) =>
    reportOf({ mirror, checkpoint, choices: { include: ['*'], exclude: [excluded] }, keyHash: 'a key' });

  it('compares every dataset that is in the mirror, or desired and chosen', () => {
    expect(chooseDatasets([], known('none'))).toEqual(['parcels', 'rivers', 'roads', 'zoning']);
    expect(chooseDatasets([], known('zoning'))).toEqual(['parcels', 'rivers', 'roads']);
    expect(chooseDatasets(['zoning'], known('zoning'))).toEqual(['zoning']);
    expect(() => chooseDatasets(['zonign'], known('zoning'))).toThrow(UsageError);
  });

  it('compares a dataset by the desired state and suspension in the stores', () => {
    const shared = desired({ datasetId: 'zoning', members: membersAt('sub_1', 'sub_2') });
    const kindOf = (id: string, checkpoint: CheckpointContent) => {
      const report = known('parcels', checkpoint);
      return comparisonOf(report.datasets.get(id) ?? null, report).kind;
    };
    expect(['parcels', 'roads', 'zoning', 'rivers', 'gone'].map((id) => kindOf(id, stored))).toEqual([
      'left-out',
      'not-desired',
      'suspended',
      'not-desired',
      'not-desired',
    ]);
    expect(kindOf('rivers', NO_CHECKPOINT)).toBe('followed');
    const ofMember = {
      ...stored,
      suspensions: [suspension({ kind: 'subscription', subscriptionId: 'sub_1' })],
    };
    expect(kindOf('zoning', ofMember)).toBe('suspended');
    expect(kindOf('zoning', { ...ofMember, desiredStates: new Map([['zoning', shared]]) })).toBe('followed');
  });
});

it('lets go of the mirror between turns for longer than a writer waits between two attempts', async () => {
  await using folder = await temporaryFolder();
  const mirror = await mirrorIn(folder.path);
  const files = [await parquet(folder.path, 'a.parquet', 'SELECT 1 AS id')];
  const columns = [column('id', 'integer')];
  const ids = ['a', 'b', 'c'];
  await load(mirror, ...ids.map((datasetId) => snapshot({ datasetId, columns, files })));
  const manual = manualClock(async () => {
    // A writer gets in, because the file is free.
    await mirror.enroll({
      origin: `https://${manual.slept.length}`,
      subscriptionIds: [],
      forgottenSubscriptionIds: [],
      datasetIds: [],
    });
  });
  let elapsedMs = 0;
  const clock = { ...manual, monotonicMs: () => (elapsedMs += 2_000) };
  const { configuration } = configured({
    flags: { '--destination-path': join(folder.path, 'mirror.duckdb'), '--duckdb-threads': '1' },
  });
  const context = { clock, random: { next: () => 0.5 }, signal: new AbortController().signal };
  const counted = await countMirror([...ids, 'gone'], configuration, context);
  expect([...counted.keys()]).toEqual(ids);
  expect(manual.slept).toEqual([1_000, 1_000, 1_000]);
  await mirror.close();
});
