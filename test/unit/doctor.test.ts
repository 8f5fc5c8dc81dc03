/** `doctor`: its judgements, its report, and that no check stops another. */

import { describe, expect, it } from 'vitest';
import type { InstanceHolder } from '../../src/checkpoint/instance-lock.ts';
import type { Context } from '../../src/cli/context.ts';
import { datasetToAsk, judgeSubscriptions } from '../../src/cli/doctor/access.ts';
import {
  type Check,
  type Facts,
  type Finding,
  factsAbout,
  ok,
  problem,
  skipped,
  warning,
} from '../../src/cli/doctor/check.ts';
import { judgeRuntime, memoryFindings } from '../../src/cli/doctor/configuration.ts';
import { judgeClock, judgeConnection } from '../../src/cli/doctor/connection.ts';
import { type FolderSeen, judgeFolder } from '../../src/cli/doctor/disk.ts';
import { diagnosisOf, masked, renderDiagnosis, runChecks } from '../../src/cli/doctor/doctor.ts';
import { judgeContent, judgeMirrorLocks } from '../../src/cli/doctor/stores.ts';
import { type InspectedSetting, inspectConfiguration } from '../../src/configuration/configuration.ts';
import type { ConnectionCheck } from '../../src/feed/http/connection-check.ts';
import { InterruptedError, ServiceUnavailableError } from '../../src/model/errors.ts';
import { locksOn, NO_CHECKPOINT } from '../../src/reporting/stores.ts';
import { followedAt } from '../support/checkpoint-files.ts';
import { inputOf, load } from '../support/configuration.ts';
import { desired, failure, id, NOW, subscription, suspension } from '../support/sync-values.ts';

const DAY_MS = 86_400_000;

/** State and exit code of findings. */
function states(findings: readonly Finding[]): readonly string[] {
  return findings.map(
    ({ about, state, exitCode }) => `${about}: ${state}${exitCode === 0 ? '' : ` ${exitCode}`}`,
  );
}

describe('the versions', () => {
  const runtime = { leastNodeVersion: '24.18.0', operatingSystem: 'Linux 6.1 x64' };
  it.each([
    ['24.18.0', 'ok'],
    ['24.21.3', 'ok'],
    ['26.0.0', 'ok'],
    ['24.9.5', 'warning'],
    ['24.17.99', 'warning'],
  ])('judges Node %s: %s', (nodeVersion, state) => {
    expect(judgeRuntime('1.2.3', { ...runtime, nodeVersion })).toMatchObject({
      state,
      found: expect.stringContaining(`1.2.3 on Node ${nodeVersion}, Linux 6.1 x64`),
      hints: state === 'ok' ? [] : ['Run it on a newer Node: 24.18.0 or later.'],
    });
  });
});

describe('the clock', () => {
  const at = (offMs: number) => ({
    status: 200,
    serviceTime: NOW,
    ourTime: new Date(NOW.getTime() + offMs),
    tookMs: 5,
  });

  it.each([
    [1_500, 'ok', 'as that of the service'],
    [-59_000, 'ok', '59.0 s off'],
    [60_000, 'warning', '1 m 0 s ahead of'],
    [-299_000, 'warning', '4 m 59 s behind'],
    [300_000, 'problem', '5 m 0 s ahead of'],
    [-86_400_000, 'problem', '24 h 0 m behind'],
  ])('judges a clock that is %i ms off: %s', (offMs, state, words) => {
    expect(judgeClock(at(offMs))).toMatchObject({ state, found: expect.stringContaining(words) });
  });

  it('does not judge the clock without an answer, or by an answer without a time', () => {
    expect(judgeClock(null).state).toBe('skipped');
    expect(judgeClock({ ...at(0), serviceTime: null }).state).toBe('skipped');
  });
});

describe('the connection', () => {
  const tls = {
    protocol: 'TLSv1.3',
    subject: 'CN=feed.example.com',
    issuer: 'CN=An authority, O=Trust',
    validFrom: NOW,
    validUntil: new Date(NOW.getTime() + 100 * DAY_MS),
    distrust: null,
  };
  const resolveHost = { hostname: 'feed.example.com', addresses: ['192.0.2.7'], tookMs: 3, failure: null };
  const answer = { status: 401, serviceTime: NOW, ourTime: NOW, tookMs: 12 };
  const sound: ConnectionCheck = {
    host: 'feed.example.com',
    proxyHost: null,
    resolveHost,
    tls,
    answer,
    fault: null,
  };
  const seen = (changed: Partial<ConnectionCheck>) => judgeConnection({ ...sound, ...changed }, NOW);

  it('reports name, certificate and answer of a sound connection', () => {
    expect(seen({}).map(({ state, found }) => [state, found])).toEqual([
      ['ok', 'feed.example.com is 192.0.2.7 (3 ms)'],
      ['ok', 'CN=feed.example.com by CN=An authority, O=Trust, valid until 2026-06-09; TLSv1.3'],
      ['ok', 'feed.example.com answers over TLS (12 ms)'],
    ]);
  });

  it.each([
    [14, 'ok'],
    [13.9, 'warning'],
  ])('judges a certificate that is valid for %f more days: %s', (days, state) => {
    const validUntil = new Date(NOW.getTime() + days * DAY_MS);
    expect(seen({ tls: { ...tls, validUntil } })[1]).toMatchObject({ state });
  });

  it.each([
    ['SELF_SIGNED_CERT_IN_CHAIN', 'NODE_EXTRA_CA_CERTS'],
    ['CERT_HAS_EXPIRED', 'clock'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'another host'],
  ])('says what to do about a certificate that is not trusted: %s', (distrust, hint) => {
    expect(seen({ tls: { ...tls, distrust } })[1]).toMatchObject({
      state: 'problem',
      exitCode: 75,
      found: expect.stringContaining(distrust),
      hints: [expect.stringContaining(hint)],
    });
  });

  it('reports an unknown host name as one problem, not two', () => {
    const failed = { ...resolveHost, addresses: [], failure: 'ENOTFOUND' };
    const found = seen({
      resolveHost: failed,
      tls: null,
      answer: null,
      fault: { message: 'no name', hint: null },
    });
    expect(states(found)).toEqual(['name: problem 75', 'service: skipped']);
    expect(found[0]?.found).toContain('ENOTFOUND');
  });

  it('names the proxy of a connection, and resolves no name where there is none', () => {
    const found = seen({ resolveHost: null, proxyHost: 'proxy.example.com:3128' });
    expect(states(found)).toEqual(['proxy: ok', 'certificate: ok', 'service: ok']);
    expect(found[0]?.found).toContain('proxy.example.com:3128');
  });
});

describe('a folder', () => {
  const seen: FolderSeen = {
    path: '/data',
    nearest: '/data',
    isFolder: true,
    mode: 0o700,
    ownerUid: 1_000,
    refusal: null,
    freeBytes: 5e9,
    isOutOfInodes: false,
  };
  const judge = (changed: Partial<FolderSeen>, reserveBytes: number | null = 1e9) =>
    judgeFolder({ about: 'data directory', isOwn: true }, { ...seen, ...changed }, reserveBytes, 1_000);

  it('finds a usable folder ok, with its free space', () => {
    expect(judge({})).toEqual([ok('data directory', '/data (5.0 GB free)')]);
  });

  it.each([
    [
      'in which the user may not write',
      { refusal: 'EACCES', ownerUid: 0 },
      'User id 1000 may not write in /data',
      'chown 1000 /data',
    ],
    ['on a read-only mount', { refusal: 'EROFS' }, 'mounted read-only', 'Mount it'],
    ['that is a file', { isFolder: false }, '/data is a file', 'Move the file'],
  ])('reports a folder %s as a problem, with a hint', (_, changed, found, hint) => {
    expect(judge(changed)[0]).toMatchObject({
      state: 'problem',
      exitCode: 74,
      found: expect.stringContaining(found),
      hints: [expect.stringContaining(hint)],
    });
  });

  it('advises to create a missing folder for the user, and never to hand over its parent', () => {
    const [found] = judge({ refusal: 'EACCES', nearest: '/', ownerUid: 0 });
    expect(found?.hints[0]).toMatch(/: mkdir -p \/data && chown 1000 \/data && chmod 700 \/data$/);
  });

  it('reports a folder with less free space than the reserve', () => {
    expect(states(judge({ freeBytes: 1e9 - 1 }))).toEqual([
      'data directory: ok',
      'data directory: problem 74',
    ]);
    expect(states(judge({ freeBytes: 1 }, null))).toEqual(['data directory: ok']);
  });

  it('F66 reports a folder that has room for bytes but no inode for another file', () => {
    const [, found] = judge({ isOutOfInodes: true });
    expect(found).toMatchObject({
      state: 'problem',
      exitCode: 74,
      found: 'The file system of /data has no inodes left for another file (5.0 GB are free).',
      hints: [expect.stringContaining('df -i')],
    });
  });

  it('warns of a private folder that others may enter, and not before it is created', () => {
    expect(states(judge({ mode: 0o750 }))).toEqual(['data directory: ok', 'data directory: warning']);
    expect(states(judge({ mode: 0o755, nearest: '/' }))).toEqual(['data directory: ok']);
    const shared = judgeFolder(
      { about: 'mirror directory', isOwn: false },
      { ...seen, mode: 0o755 },
      null,
      1,
    );
    expect(states(shared)).toEqual(['mirror directory: ok']);
  });
});

describe('locks on the mirror', () => {
  const instance: InstanceHolder = { pid: 7, host: 'here', startedAt: NOW, command: 'run' };
  const judge = (...locks: Parameters<typeof judgeMirrorLocks>[0]) =>
    judgeMirrorLocks(locks, instance, () => 'python3');

  it('accepts the lock of the running instance, warns of a reader, and reports another writer as a problem', () => {
    expect(judge().state).toBe('ok');
    expect(judge({ pid: 7, mode: 'writes' })).toMatchObject({
      state: 'ok',
      found: expect.stringContaining('committing'),
    });
    expect(judge({ pid: 8, mode: 'reads' })).toMatchObject({
      state: 'warning',
      found: expect.stringContaining('process 8 (python3) reads it'),
    });
    expect(states([judge({ pid: 8, mode: 'writes' })])).toEqual(['mirror: problem 75']);
  });

  it('reads the locks on one file of one device from the list of the system', () => {
    const text = [
      '1: POSIX  ADVISORY  READ 41 fe:00:131 0 EOF',
      '2: POSIX  ADVISORY  WRITE 42 fe:00:131 0 EOF',
      '2: -> POSIX  ADVISORY  WRITE 43 fe:00:131 0 EOF',
      '3: FLOCK  ADVISORY  WRITE 44 fe:00:131 0 EOF',
      '4: POSIX  ADVISORY  READ 45 fe:01:131 0 EOF',
      '5: POSIX  ADVISORY  READ 46 fe:00:132 0 EOF',
      '6: POSIX  ADVISORY  READ 42 fe:00:131 128 EOF',
      '',
    ].join('\n');
    expect(locksOn({ dev: 0xfe00, ino: 131 }, text)).toEqual([
      { pid: 41, mode: 'reads' },
      { pid: 42, mode: 'writes' },
    ]);
    expect(locksOn({ dev: 0xfe01, ino: 131 }, text)).toEqual([{ pid: 45, mode: 'reads' }]);
  });
});

describe('the content of the checkpoint', () => {
  const followed = (subscriptionId: string, daysAgo: number, changed = {}) =>
    followedAt(id(1), {
      subscriptionId,
      cursorAt: new Date(NOW.getTime() - daysAgo * DAY_MS),
      ...changed,
    });
  const content = (...subscriptions: readonly ReturnType<typeof followed>[]) => ({
    ...NO_CHECKPOINT,
    followed: new Map(subscriptions.map((one) => [one.subscriptionId, one])),
    desiredStates: new Map([['parcels', desired()]]),
  });

  it('warns of a position that is about to expire, unless its log is read from its start', () => {
    const [, young] = judgeContent(content(followed('sub_1', 74), followed('sub_2', 3)), NOW);
    expect(young).toMatchObject({ state: 'ok', found: expect.stringContaining('sub_1, of 74 days ago') });
    expect(judgeContent(content(followed('sub_1', 75)), NOW)[1]?.state).toBe('warning');
    expect(judgeContent(content(followed('sub_1', 200, { replayedAt: NOW })), NOW)).toHaveLength(1);
    expect(judgeContent(content(followed('sub_1', -1)), NOW)[1]?.found).toContain('of 0 days ago');
  });

  it('reports suspensions and failures as problems with their own codes, and counts the rest of many causes', () => {
    const failures = new Map(
      Array.from({ length: 22 }, (_, index) => {
        const datasetId = `d${index}`;
        return [datasetId, failure({ datasetId, message: String.fromCharCode(97 + index) })] as const;
      }),
    );
    failures.set('d0', failure({ datasetId: 'd0', error: 'storage_failed' }));
    failures.set('d1', failure({ datasetId: 'd1', error: 'service_unavailable' }));
    const found = judgeContent({ ...content(), suspensions: [suspension()], failures }, NOW);
    expect(states(found).slice(0, 5)).toEqual([
      'content: ok',
      'suspension: problem 77',
      'failed: problem 74',
      'failed: problem 75',
      'failed: problem 65',
    ]);
    expect(found).toHaveLength(23);
    expect(found.at(-1)?.found).toBe('and 2 more causes');
  });

  it('reports a cause of many failures as one problem, and ignores failures of former members', () => {
    const failures = new Map(
      Array.from({ length: 3_000 }, (_, index) => {
        const datasetId = `d${index}`;
        return [datasetId, failure({ datasetId, message: `${datasetId} is cut at byte ${index}` })] as const;
      }),
    );
    const left = desired({ datasetId: 'left', members: new Map() });
    failures.set('left', failure({ datasetId: 'left', message: 'it was wrong' }));
    const stored = { ...content(), suspensions: [], failures, desiredStates: new Map([['left', left]]) };
    const problems = judgeContent(stored, NOW).filter(({ state }) => state === 'problem');
    expect(problems.map(({ found }) => found.split('\n').at(-1))).toEqual([
      expect.stringContaining('The same for 2,999 more datasets: d1, d2,'),
    ]);
  });
});

describe('subscriptions', () => {
  const configuration = (chosen: string | undefined) =>
    load({
      environment: {
        FEED_SYNC_BASE_URL: 'https://feed.example',
        FEED_SYNC_API_KEY: 'a-key',
        FEED_SYNC_SUBSCRIPTIONS: chosen,
        FEED_SYNC_DATASETS_EXCLUDE: 'left-*',
      },
    }).configuration;
  const checkpointOf = (...ids: readonly string[]): NonNullable<Facts['checkpoint']> => ({
    ...NO_CHECKPOINT,
    followed: new Map(ids.map((subscriptionId) => [subscriptionId, followedAt(null, { subscriptionId })])),
  });
  const judge = (seen: readonly string[], chosen: string | undefined, ...before: readonly string[]) =>
    judgeSubscriptions(
      seen.map((id) => subscription({ id })),
      configuration(chosen),
      { checkpoint: checkpointOf(...before), mirror: null },
    );

  it('reports subscriptions that are chosen, left out, unknown or gone', () => {
    expect(judge(['sub_1', 'sub_2'], 'sub_2').map(({ found }) => found.split(', ').at(-1))).toEqual([
      'not chosen',
      'chosen',
    ]);
    expect(states(judge(['sub_1'], 'sub_9'))).toEqual(['sub_1: ok', 'chosen: problem 78']);
    expect(states(judge(['sub_1'], undefined, 'sub_1', 'sub_2'))).toEqual(['sub_1: ok', 'sub_2: problem 77']);
    expect(judge(['sub_1', 'sub_2'], 'sub_1', 'sub_2').at(-1)?.found).toContain('leaves it out');
    expect(states(judge([], undefined))).toEqual(['seen: warning']);
    expect(
      judge(
        Array.from({ length: 25 }, (_, index) => `s${index}`),
        undefined,
      ).at(-1)?.found,
    ).toBe('and 5 more');
  });

  it('reports subscriptions that the mirror does not have as a wrong configuration', () => {
    const mirror = {
      service: { origin: 'https://feed.example', subscriptionIds: ['sub_7'] },
      datasets: new Map(),
      progress: null,
      retired: [],
    };
    const found = judgeSubscriptions([subscription({ id: 'sub_1' })], configuration(undefined), {
      checkpoint: null,
      mirror,
    });
    expect(states(found)).toEqual(['sub_1: ok', 'mirror: problem 78']);
  });

  it('asks about a dataset that is neither suspended nor left out', () => {
    const facts = {
      listedDatasetIds: [],
      subscriptions: [
        subscription({ id: 'sub_1', datasetIds: ['of-suspended'] }),
        subscription({ id: 'sub_2', datasetIds: ['left-out', 'parcels', 'roads'] }),
      ],
      checkpoint: {
        ...checkpointOf(),
        suspensions: [suspension({ kind: 'subscription', subscriptionId: 'sub_1' }), suspension()],
      },
    };
    expect(datasetToAsk(configuration(undefined), facts)).toBe('roads');
    const listed = { ...facts, subscriptions: [subscription({ datasetIds: [], id: 'sub_2' })] };
    expect(datasetToAsk(configuration(undefined), listed)).toBe(null);
    expect(datasetToAsk(configuration(undefined), { ...listed, listedDatasetIds: ['zoning'] })).toBe(
      'zoning',
    );
  });
});

describe('memory', () => {
  it('warns where DuckDB may take all memory of the container', () => {
    const machine = { memoryBytes: 16e9, constrainedMemoryBytes: 2e9, heapBytes: 2e9, cores: 2 };
    expect(memoryFindings(1e9, machine)).toEqual([]);
    expect(states(memoryFindings(2e9, machine))).toEqual(['memory: warning']);
    expect(memoryFindings(2e9, { ...machine, constrainedMemoryBytes: 0 })).toEqual([]);
  });
});

describe('running the checks', () => {
  const never = new AbortController().signal;
  const factsUntil = (signal: AbortSignal) => {
    const inspection = inspectConfiguration(inputOf({}));
    return factsAbout({ version: '1', inspection, context: { signal } as Context });
  };
  const check = (name: Check['name'], run: Check['run'], limitMs = 5_000): Check => ({ name, limitMs, run });

  it('runs every check although others fail, and passes the facts of earlier checks on to later ones', async () => {
    const found = await runChecks(
      [
        check('disk', () => {
          throw new ServiceUnavailableError('Not there.', { hint: 'Wait.' });
        }),
        check('locks', async () => {
          throw new TypeError('a slip');
        }),
        check('checkpoint', () => new Promise(() => {}), 1),
        check('mirror', (facts) => {
          facts.listedDatasetIds = ['parcels'];
          return [];
        }),
        check('key', ({ listedDatasetIds }) => [ok('seen', listedDatasetIds.join())]),
      ],
      factsUntil(never),
    );
    expect(found.map(({ check: name, findings }) => [name, ...states(findings)])).toEqual([
      ['disk', 'disk: problem 75'],
      ['locks', 'locks: problem 70'],
      ['checkpoint', 'checkpoint: problem 75'],
      ['mirror'],
      ['key', 'seen: ok'],
    ]);
    expect(found[0]?.findings[0]?.hints).toEqual(['Wait.']);
    expect(found[1]?.findings[0]?.found).toContain('TypeError: a slip');
    expect(found[2]?.findings[0]?.found).toContain('Not finished within 1 ms');
    expect(found[4]?.findings[0]?.found).toBe('parcels');
  });

  it('ends all checks when it is asked to stop', async () => {
    const stopping = new AbortController();
    const stopped = new InterruptedError('Stopped.');
    const checks = [
      check('disk', (_facts, signal) => {
        stopping.abort(stopped);
        signal.throwIfAborted();
        return [];
      }),
      check('locks', () => expect.unreachable()),
    ];
    await expect(runChecks(checks, factsUntil(stopping.signal))).rejects.toBe(stopped);
  });
});

describe('the report', () => {
  const SETTINGS: readonly InspectedSetting[] = [
    {
      key: 'service.baseUrl',
      value: 'https://feed.example',
      source: 'environment FEED_SYNC_BASE_URL',
      problem: null,
    },
    { key: 'lock.wait', value: null, source: 'file /f.yaml:3', problem: 'is wrong' },
  ];
  const report = (checks: Parameters<typeof diagnosisOf>[0]) =>
    diagnosisOf(checks, { ...inspectConfiguration(inputOf({})), settings: SETTINGS });

  it('renders each finding in one line, with its hints below', () => {
    const refused = {
      ...problem('key', 'The service refused.\nIt says: \u001b[2Jno', 77, 'Set a new one.'),
      links: { keys: 'https://app.example/keys' },
    };
    const diagnosis = report([
      {
        check: 'configuration',
        findings: [ok('file', '/f.yaml'), warning('API key', 'Others can read it.', 'chmod 600 /f.yaml')],
      },
      { check: 'key', findings: [refused] },
      { check: 'contract', findings: [skipped('names', 'Not asked.')] },
    ]);
    expect(renderDiagnosis(diagnosis)).toBe(
      [
        'configuration',
        '  ok       file     /f.yaml',
        '  WARNING  API key  Others can read it.',
        '                    → chmod 600 /f.yaml',
        '',
        '    service.baseUrl  https://feed.example (environment FEED_SYNC_BASE_URL)',
        '    lock.wait        wrong (file /f.yaml:3)',
        '',
        'key',
        '  PROBLEM  key      The service refused.',
        '                    It says: \\u001b[2Jno',
        '                    keys: https://app.example/keys',
        '                    → Set a new one.',
        '',
        'contract',
        '  skipped  names    Not asked.',
        '',
        '1 problem, 1 warning, 1 not checked.',
      ].join('\n'),
    );
    expect(diagnosis).toMatchObject({ problems: 1, warnings: 1, skipped: 1, exitCode: 77 });
  });

  it('ends with the most urgent exit code, and with 0 where there are only warnings', () => {
    const all = [65, 75, 77, 78, 74, 70].map((code) => problem('x', 'x', code as 65));
    for (const [index, code] of [65, 75, 77, 78, 74, 70].entries()) {
      expect(report([{ check: 'disk', findings: all.slice(0, index + 1) }]).exitCode).toBe(code);
    }
    const calm = report([{ check: 'disk', findings: [ok('x', 'x')] }]);
    expect(renderDiagnosis(calm)).toMatch(/\n\nEverything is as it should be\.$/);
    expect(report([{ check: 'disk', findings: [warning('x', 'x')] }]).exitCode).toBe(0);
  });

  it('masks a secret in every encoding', () => {
    const key = 'sk+live/0123456789';
    const base64 = Buffer.from(key).toString('base64');
    const hidden = { a: [`x ${key} y`, encodeURIComponent(key)], b: { c: `Basic ${base64}`, d: 7, e: null } };
    expect(masked(hidden, [key, 'ab'])).toEqual({
      a: ['x [secret] y', '[secret]'],
      b: { c: 'Basic [secret]', d: 7, e: null },
    });
    expect(masked('cabbage', ['ab'])).toBe('cabbage');
  });
});
