/** The summary at the end of a catch-up: the exact text. */

import { PassThrough, Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { write } from '../../src/cli/context.ts';
import { formatError, formatScope, formatSuspension } from '../../src/cli/render/messages.ts';
import { exitCodeOfResult, summarize } from '../../src/cli/render/summary.ts';
import { renderTable } from '../../src/cli/render/table.ts';
import { printable } from '../../src/lib/text.ts';
import type { CommitResult } from '../../src/model/commits.ts';
import { BusyError, DataError, ServiceUnavailableError, StorageError } from '../../src/model/errors.ts';
import type { AwaitedSubscription } from '../../src/sync/plan/retirement.ts';
import type { CatchUpResult, DatasetResult } from '../../src/sync/result.ts';
import { retirementWaits } from '../../src/sync/retirements.ts';
import { failure, refusal, suspension, table } from '../support/sync-values.ts';

function result(changed: Partial<CatchUpResult> = {}): CatchUpResult {
  return {
    subscriptions: 1,
    datasets: [],
    incidents: [],
    suspensions: [],
    again: null,
    durationMs: 2_449,
    ...changed,
  };
}

function commit(changed: Partial<CommitResult> = {}): CommitResult {
  return {
    kind: 'snapshot',
    tableName: 'a',
    fromVersion: null,
    toVersion: 1,
    rowCount: 1_000_000,
    net: null,
    versions: 1,
    bytes: 9_100_000,
    durationMs: 100,
    observed: table(1),
    ...changed,
  };
}

/** Three versions in one step. */
const CHANGES: Partial<CommitResult> = {
  kind: 'changes',
  fromVersion: 1,
  toVersion: 4,
  net: { added: 1_200, changed: 4, removed: 1 },
  versions: 3,
  bytes: 2_100,
};

function loaded(datasetId: string, rowCount = 1_000_000): DatasetResult {
  return { kind: 'updated', datasetId, commits: [commit({ rowCount })], recheckAt: null };
}

/** A commit that has lost the past of its table. */
function losing(datasetId: string, lostPast: string): DatasetResult {
  return { kind: 'updated', datasetId, commits: [commit({ fromVersion: 1, lostPast })], recheckAt: null };
}

const broken = new DataError('The file part-0.parquet is cut.', { hint: 'Report it to the service.' });
const failed: DatasetResult = {
  kind: 'failed',
  datasetId: 'zoning',
  commits: [],
  error: broken,
  failure: failure(),
};
const waiting: DatasetResult = {
  kind: 'waiting',
  datasetId: 'roads',
  commits: [],
  why: 'the manifest lags',
  until: null,
  awaited: [],
};
/** Its table is to be retired, and waits for a subscription for each of these reasons. */
function awaiting(...reasons: readonly AwaitedSubscription['reason'][]): DatasetResult {
  const awaited = reasons.map((reason, index): AwaitedSubscription => {
    const subscriptionId = `sub_${index}`;
    if (reason !== 'suspended') return { subscriptionId, reason };
    return { subscriptionId, reason, ofSubscription: suspension({ kind: 'subscription', subscriptionId }) };
  });
  return { datasetId: 'left', commits: [], ...retirementWaits(awaited) };
}

const observed: DatasetResult = {
  kind: 'suspended',
  datasetId: 'parcels',
  commits: [],
  suspension: suspension(),
};

describe('the summary', () => {
  it('summarizes a first start', () => {
    expect(summarize(result({ subscriptions: 2, datasets: [loaded('a'), loaded('b')] }))).toBe(
      '2 datasets in 2 subscriptions: 2 loaded, 0 already up to date. 2,000,000 rows from 18.2 MB. 2.4 s.',
    );
  });

  it('summarizes a catch-up without work', () => {
    expect(
      summarize(
        result({
          datasets: [{ kind: 'current', datasetId: 'a', commits: [], recheckAt: null }],
          durationMs: 12,
        }),
      ),
    ).toBe('1 dataset in 1 subscription: 0 loaded, 1 already up to date. 12 ms.');
  });

  it('summarizes changes and retirements', () => {
    const datasets: DatasetResult[] = [
      { kind: 'updated', datasetId: 'a', commits: [commit(CHANGES)], recheckAt: null },
      {
        kind: 'updated',
        datasetId: 'b',
        commits: [commit({ rowCount: 7 }), commit(CHANGES)],
        recheckAt: null,
      },
      { kind: 'retired', datasetId: 'c', commits: [], table: null },
    ];
    expect(summarize(result({ datasets }))).toBe(
      '3 datasets in 1 subscription: 1 loaded, 1 updated by changes, 1 retired, 0 already up to date. ' +
        '7 rows from 9.1 MB. 6 versions: 2,400 rows added, 8 changed, 2 removed, from 4.2 KB. 2.4 s.',
    );
    expect(exitCodeOfResult(result({ datasets }))).toBe(0);
  });

  it('names the version that was committed before a dataset ended otherwise', () => {
    const commits = [commit({ rowCount: 7 }), commit(CHANGES)];
    const text = summarize(result({ datasets: [{ ...waiting, commits }] }));
    expect(text).toContain('1 waiting. 7 rows from 9.1 MB. 3 versions: 1,200 rows added');
    expect(text).toMatch(/\n {2}roads: the manifest lags\n {4}brought to version 4 before that$/);
  });

  it('reports a suspended subscription and suspended retirements once, not for each dataset', () => {
    const scopes = [{ kind: 'subscription', subscriptionId: 'sub_2' }, { kind: 'retirement' }] as const;
    const datasets = scopes.map((scope) => ({ ...observed, suspension: suspension(scope) }));
    const text = summarize(result({ datasets, suspensions: scopes.map(suspension) }));
    expect(text).toContain('2 suspended');
    expect(text).not.toContain('Suspended:');
    expect(text.match(/The county is not covered/g)).toHaveLength(2);
    expect(exitCodeOfResult(result({ datasets }))).toBe(77);
  });

  it('W16 names the awaited subscriptions of each retirement, and the commands once for all tables', () => {
    const missing = {
      ...suspension(),
      refusal: {
        ...suspension().refusal,
        scope: { kind: 'subscription', subscriptionId: "Bob's" },
        status: null,
        code: 'subscription_missing',
        message: 'The service no longer lists it.',
      },
    } as const;
    const refused = suspension({ kind: 'subscription', subscriptionId: 'sub_2' });
    const bobs = { subscriptionId: "Bob's", reason: 'suspended', ofSubscription: missing } as const;
    const second = { subscriptionId: 'sub_2', reason: 'suspended', ofSubscription: refused } as const;
    const third = { subscriptionId: 'sub_3', reason: 'log-unread' } as const;
    const datasets: DatasetResult[] = [
      { datasetId: 'a', commits: [], ...retirementWaits([bobs]) },
      { datasetId: 'b', commits: [], ...retirementWaits([bobs, second]) },
      { datasetId: 'c', commits: [], ...retirementWaits([second, third]) },
      waiting,
    ];
    expect(summarize(result({ datasets })).split('\n').slice(1)).toEqual([
      '',
      'Waiting until you have acted:',
      "  a: no subscription contains it any more; its retirement waits for subscription Bob's, which is suspended",
      "  b: no subscription contains it any more; its retirement waits for subscriptions Bob's, sub_2, which are suspended",
      "→ When it is there again: feed-sync resume --subscription 'Bob'\\''s'",
      "→ To give it up, and retire what only it contains: feed-sync forget --subscription 'Bob'\\''s'",
      '→ Once you have acted on it: feed-sync resume --subscription sub_2',
      '',
      'Waiting for the next catch-up:',
      '  c: no subscription contains it any more; its retirement waits for subscription sub_2, which is suspended, ' +
        'and for subscription sub_3, whose log was not read to its end since the dataset left',
      '  roads: the manifest lags',
      '→ Once you have acted on it: feed-sync resume --subscription sub_2',
    ]);
  });

  it('says when running again helps, and how to wait for it', () => {
    const at = new Date('2026-03-01T12:10:30.000Z');
    const reported = (inMs: number) => summarize(result({ datasets: [waiting], again: { at, inMs } }));
    expect(
      reported(9 * 60_000 + 30_000)
        .split('\n')
        .slice(-3),
    ).toEqual([
      '',
      'Running it again helps from 2026-03-01 12:11 UTC on, in 9 m 30 s.',
      '→ feed-sync once --wait 11m waits for it.',
    ]);
    expect(reported(1)).toContain('--wait 2m waits');
    expect(summarize(result({ datasets: [waiting] }))).not.toContain('again helps');
  });

  it('summarizes every kind of problem', () => {
    const text = summarize(
      result({
        datasets: [loaded('a', 1), observed, failed, waiting],
        incidents: [
          { subscriptionId: 'sub_1', error: new ServiceUnavailableError('The log cannot be read.') },
          {
            subscriptionId: null,
            error: new StorageError('The disk is full.', { hint: 'Free some space.' }),
          },
        ],
        suspensions: [suspension({ kind: 'subscription', subscriptionId: 'sub_2' })],
      }),
    );
    expect(text).toBe(
      [
        '4 datasets in 1 subscription: 1 loaded, 0 already up to date, 1 waiting, 1 suspended, 1 failed. 1 row from 9.1 MB. 2.4 s.',
        '',
        'The service refused to list versions (403 outside_coverage).',
        '  It says: The county is not covered.',
        '  coverage: https://app.example/coverage',
        '  Suspended since 2026-03-01 12:00 UTC; until you have acted, nothing more is asked of the service for it.',
        '→ Once you have acted on it: feed-sync resume --subscription sub_2',
        '',
        'Subscription sub_1: The log cannot be read. [service_unavailable]',
        '',
        'The disk is full. [storage_failed]',
        '→ Free some space.',
        '',
        'Suspended:',
        '  parcels: The service refused to list versions (403 outside_coverage).',
        '      It says: The county is not covered.',
        '      coverage: https://app.example/coverage',
        '      Suspended since 2026-03-01 12:00 UTC; until you have acted, nothing more is asked of the service for it.',
        '    → Once you have acted on it: feed-sync resume --dataset parcels',
        '',
        'Failed:',
        '  zoning: The file part-0.parquet is cut. [data_invalid]',
        '    → Report it to the service.',
        '    → The next catch-up tries it again.',
        '',
        'Waiting for the next catch-up:',
        '  roads: the manifest lags',
      ].join('\n'),
    );
  });

  it('reports a lost past with its commit, reason and remedy, once for each reason', () => {
    const memory = 'comparing the rows of the table needed more memory than duckdb.memoryLimit allows';
    const datasets = [
      losing('parcels', memory),
      losing('zoning', 'history was switched off'),
      losing('roads', memory),
    ];
    expect(summarize(result({ datasets }))).toBe(
      [
        '3 datasets in 1 subscription: 3 loaded, 0 already up to date. 3,000,000 rows from 27.3 MB. 2.4 s.',
        '',
        'Earlier states that are not known any more:',
        '  parcels: before commit 1: comparing the rows of the table needed more memory than duckdb.memoryLimit allows',
        '    → Raise duckdb.memoryLimit (FEED_SYNC_DUCKDB_MEMORY_LIMIT), or the next such reload loses the past again. Later states are known.',
        '    The same for 1 more dataset: roads.',
        '  zoning: before commit 1: history was switched off',
        '    → Where its past is to be kept, name the dataset in history.datasets (FEED_SYNC_HISTORY_DATASETS).',
      ].join('\n'),
    );
  });

  it('shows twenty causes, and counts the rest', () => {
    const datasets = Array.from({ length: 26 }, (_, index) => ({
      ...waiting,
      datasetId: `dataset-${index}`,
      why: `cause ${String.fromCharCode(97 + index)}`,
    }));
    const lines = summarize(result({ datasets })).split('\n');
    expect(lines.slice(-2)).toEqual(['  dataset-19: cause t', '  and 6 more: feed-sync status']);
    expect(lines).toHaveLength(24);
  });

  it('shows one cause once, though ids and numbers differ, and names twenty of its datasets', () => {
    const datasets = Array.from({ length: 1_022 }, (_, index) => ({
      ...waiting,
      datasetId: `dataset-${index}`,
      why: `dataset-${index} cannot be read after ${index + 1} ${index === 0 ? 'attempt' : 'attempts'} in ${index} ms`,
    }));
    const lines = summarize(result({ datasets })).split('\n');
    expect(lines.at(-2)).toBe('  dataset-0: dataset-0 cannot be read after 1 attempt in 0 ms');
    expect(lines.at(-1)).toMatch(/^ {4}The same for 1,021 more datasets: dataset-1, .*-20 and 1,001 more\.$/);
    expect(lines).toHaveLength(5);
  });

  it('escapes control characters of the service', () => {
    const text = summarize(result({ datasets: [{ ...waiting, datasetId: 'a\u001b[2J\nFailed:' }] }));
    expect(text).toContain('a\\u001b[2J\\u000aFailed:: the manifest lags');
  });
});

describe('the exit code of a catch-up', () => {
  it.each([
    ['a catch-up without problems', {}, 0],
    ['a dataset that waits', { datasets: [loaded('a'), waiting] }, 75],
    ['a table that waits for a log', { datasets: [awaiting('log-unread')] }, 75],
    ['a table that waits for a suspended subscription alone', { datasets: [awaiting('suspended')] }, 77],
    ['a table that waits for both', { datasets: [awaiting('suspended', 'log-unread')] }, 75],
    ['a table that a record still names', { datasets: [awaiting('record-names-dataset')] }, 75],
    ['a dataset that failed', { datasets: [failed, loaded('a')] }, 65],
    ['a failed and a waiting dataset', { datasets: [failed, waiting] }, 75],
    [
      'a suspended dataset',
      {
        datasets: [
          waiting,
          { kind: 'suspended', datasetId: 'a', commits: [], suspension: suspension() } as const,
        ],
      },
      77,
    ],
    ['a suspended subscription', { suspensions: [suspension()], datasets: [waiting] }, 77],
    ['a busy mirror', { incidents: [{ subscriptionId: null, error: new BusyError('x') }] }, 75],
    [
      'a full disk',
      { incidents: [{ subscriptionId: null, error: new StorageError('x') }], suspensions: [suspension()] },
      74,
    ],
    [
      'a bug',
      { incidents: [{ subscriptionId: null, error: new TypeError('x') }], suspensions: [suspension()] },
      70,
    ],
  ] satisfies [string, Partial<CatchUpResult>, number][])(
    'ends with the exit code for %s',
    (_, changed, code) => {
      expect(exitCodeOfResult(result(changed))).toBe(code);
    },
  );
});

describe('the texts for an operator', () => {
  it('formats an error with its code, below a text of several lines, and its hint', () => {
    expect(formatError(broken)).toBe(
      'The file part-0.parquet is cut. [data_invalid]\n→ Report it to the service.',
    );
    expect(formatError(new DataError('No hint.'))).toBe('No hint. [data_invalid]');
    expect(formatError(new TypeError('a bug'))).toBe('a bug [bug]');
    expect(formatError(new DataError('One\nTwo'))).toBe('One\nTwo\n[data_invalid]');
    expect(formatError(new DataError('Two problems:\n  One.\n  Two.'))).toBe(
      'Two problems: [data_invalid]\n  One.\n  Two.',
    );
  });

  it('formats a refusal with the message and links of the service, and the command to go on', () => {
    expect(formatError(refusal({ kind: 'workspace' }, { status: 401, code: null }))).toBe(
      [
        'The service refused to list versions (401). [refused]',
        '  It says: The county is not covered.',
        '  coverage: https://app.example/coverage',
        '→ Once you have acted on it, give the command again.',
      ].join('\n'),
    );
    expect(formatSuspension(suspension())).toContain(
      'Suspended since 2026-03-01 12:00 UTC; until you have acted, nothing more is asked of the service for it.\n' +
        '→ Once you have acted on it: feed-sync resume --dataset parcels',
    );
  });

  it('formats a scope', () => {
    expect(formatScope({ kind: 'workspace' })).toBe('this API key');
    expect(formatScope({ kind: 'subscription', subscriptionId: 's\n' })).toBe('subscription s\\u000a');
    expect(formatScope({ kind: 'dataset', datasetId: 'd' })).toBe('dataset d');
  });

  it('escapes control characters of the service, and keeps line breaks of our own', () => {
    const hostile = '\u001b[31mred\u0007\r\u0085\u2028';
    const { refusal: reported } = refusal({ kind: 'dataset', datasetId: hostile });
    const links = new Map([[hostile, hostile]]);
    const texts = [
      formatSuspension({
        ...suspension(),
        refusal: { ...reported, message: `${hostile}\n→ fake`, code: hostile, operation: hostile, links },
      }),
      formatError(new DataError(hostile, { hint: hostile })),
    ];
    for (const text of texts) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
      expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029]/);
      expect(text).toContain('\\u001b[31mred\\u0007\\u000d\\u0085\\u2028');
    }
    expect(texts[0]?.split('\n').filter((line) => line.startsWith('→'))).toHaveLength(1);
  });

  it('keeps every script and sign as it is', () => {
    expect(printable('Añb Ω 漢字 😀 → "\'\\')).toBe('Añb Ω 漢字 😀 → "\'\\');
  });
});

describe('renderTable', () => {
  it('renders columns under a rule, with numbers to the right', () => {
    const columns = [{ title: 'dataset' }, { title: 'rows', align: 'right' }] as const;
    const rows = [
      ['parcels', '1,000'],
      ['x', '7'],
    ];
    expect(renderTable(columns, rows).split('\n')).toEqual([
      'dataset   rows',
      '──────────────',
      'parcels  1,000',
      'x            7',
    ]);
  });

  it('renders only the head of a table without rows', () => {
    expect(renderTable([{ title: 'a' }, { title: 'b' }], [])).toBe('a  b\n────');
  });

  it('moves optional columns below the row on a narrow screen, the last first, and wraps words', () => {
    const columns = [
      { title: 'dataset' },
      { title: 'name', isOptional: true },
      { title: 'table', isOptional: true },
      { title: 'state', wraps: true },
    ];
    const rows = [['parcels', 'Parcels', 'us_tx_parcels', 'behind: the service asked to load it again']];
    expect(renderTable(columns, rows, 78).split('\n')).toEqual([
      'dataset  name     table          state',
      '─'.repeat(75),
      'parcels  Parcels  us_tx_parcels  behind: the service asked to load it again',
    ]);
    expect(renderTable(columns, rows, 50).split('\n')).toEqual([
      'dataset  name     state',
      '─'.repeat(46),
      'parcels  Parcels  behind: the service asked to',
      '                  load it again',
      '  table: us_tx_parcels',
    ]);
    expect(renderTable(columns, rows, 20).split('\n')).toEqual([
      'dataset  state',
      '─'.repeat(37),
      'parcels  behind: the service asked to',
      '         load it again',
      '  name: Parcels',
      '  table: us_tx_parcels',
    ]);
  });

  it('keeps a cell on its line', () => {
    expect(renderTable([{ title: 'a' }], [['x\ny\u001b[2J']]).split('\n')).toEqual([
      'a',
      '─────────────────',
      'x\\u000ay\\u001b[2J',
    ]);
  });
});

describe('write', () => {
  it('ends when the stream has taken the text, and fails with the stream', async () => {
    const stream = new PassThrough({ encoding: 'utf8' });
    await write(stream, 'text\n');
    expect(stream.read()).toBe('text\n');
    const closed = new Writable({ write: (_chunk, _encoding, done) => done(new Error('EPIPE')) });
    closed.on('error', () => {});
    await expect(write(closed, 'text')).rejects.toThrow('EPIPE');
  });
});
