import { describe, expect, it } from 'vitest';
import { findingOf } from '../../src/cli/doctor/check.ts';
import { judgeSchemas } from '../../src/cli/doctor/content.ts';
import {
  judgeEncryption,
  judgeSchemaRights,
  judgeServer,
  setUpScriptFor,
} from '../../src/cli/doctor/database.ts';
import { destinationError, diagnose } from '../../src/destination/postgres/errors.ts';
import type { ExaminedServer } from '../../src/destination/postgres/examine.ts';
import { Secret } from '../../src/lib/secret.ts';
import { table } from '../support/sync-values.ts';

const SOUND: ExaminedServer = {
  majorVersion: 17,
  version: '17.2',
  role: 'feed_sync',
  encoding: 'UTF8',
  isInRecovery: false,
  areTriggersOff: false,
  postgis: { schema: 'public', version: '3.5' },
  citus: null,
  mayRecover: true,
  missingRights: [],
  isSuperuser: false,
  mayCreateSchemas: false,
  unknownReaders: [],
  isPooled: false,
  unsafeSettings: [],
  unloggedTables: [],
  isReadOnly: false,
  clockAheadMs: 40,
  holder: null,
  blockers: [],
  pastHolders: [],
};
const judged = (rest: Partial<ExaminedServer>) =>
  judgeServer({ ...SOUND, ...rest }, 'postgres://feed_sync@db/county').filter(({ state }) => state !== 'ok');

describe('the findings of doctor about a PostgreSQL server', () => {
  it('finds nothing wrong with a sound server', () => {
    expect(judged({})).toEqual([]);
    expect(judged({ isPooled: true, holder: 'feed-sync run, process 1 on a' })).toEqual([]);
  });

  it.each([
    [{ majorVersion: 13, version: '13.9' }, 'server', 'problem', 78],
    [{ isInRecovery: true }, 'server', 'problem', 78],
    [{ encoding: 'LATIN1' }, 'server', 'problem', 78],
    [{ areTriggersOff: true }, 'settings', 'problem', 78],
    [{ unsafeSettings: ['fsync = off'] }, 'settings', 'warning', 0],
    [{ isReadOnly: true }, 'settings', 'problem', 75],
    [{ unloggedTables: ['feeds.parcels'] }, 'tables', 'problem', 77],
    [{ missingRights: ['create the schema feeds'] }, 'role', 'problem', 77],
    [{ isSuperuser: true }, 'role', 'warning', 0],
    [{ unknownReaders: ['qgis'] }, 'readers', 'problem', 78],
    [{ clockAheadMs: -60_000 }, 'clock', 'warning', 0],
    [{ postgis: null }, 'PostGIS', 'warning', 0],
    [{ citus: '13.2-1', mayRecover: false }, 'Citus', 'warning', 0],
    [{ blockers: [{ pid: 7, who: 'ann, psql', minutes: 20 }] }, 'locks', 'warning', 0],
    [{ pastHolders: [{ what: 'view past', on: 'history.parcels__2' }] }, 'history', 'warning', 0],
  ] as const)('judges a server with %j under "%s" as a %s', (fault, about, state, exitCode) => {
    const findings = judged(fault);
    expect(findings).toMatchObject([{ about, state, exitCode }]);
    expect(findings[0]?.hints.length).toBeGreaterThan(0);
  });

  it('does not advise to run doctor where the server cannot be reached', () => {
    const away = diagnose(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }));
    const error = destinationError(away, 'postgres://feed_sync@db/county');
    expect(error).toMatchObject({ hint: 'If it lasts: feed-sync doctor' });
    expect(findingOf('database', error)).toMatchObject({ state: 'problem', exitCode: 75, hints: [] });
  });

  it('says how to end the sessions and prepared transactions that have locks', () => {
    const blockers = [
      { pid: 7, who: 'ann, psql', minutes: 20 },
      { pid: null, who: 'gid-1', minutes: 30 },
    ];
    expect(judged({ blockers })[0]?.hints.slice(1)).toEqual([
      'To end that of ann, psql: SELECT pg_terminate_backend(7)',
      'To end the prepared transaction gid-1: COMMIT PREPARED or ROLLBACK PREPARED',
    ]);
  });
});

describe('the findings of doctor about the connection to a PostgreSQL server', () => {
  it.each([
    ['postgres://a:secret@db.example/x?sslmode=verify-full', 'ok'],
    ['postgres://a:secret@db.example/x?ssl=true', 'ok'],
    ['postgres://a:secret@db.example/x?sslmode=require', 'warning'],
    ['postgres://a:secret@db.example/x?sslmode=no-verify', 'warning'],
    ['postgres://a:secret@db.example/x?sslmode=disable', 'warning'],
    ['postgres://a:secret@db.example/x', 'warning'],
    ['postgres://a:secret@10.0.0.7/x', 'warning'],
  ])('judges the encryption of %s: %s', (url, state) => {
    const findings = judgeEncryption(new Secret(url));
    expect(findings).toMatchObject([{ about: 'encryption', state }]);
    expect(JSON.stringify(findings)).not.toContain('secret');
  });

  it.each([
    'postgres://a@localhost/x',
    'postgres://a@127.0.0.1:5433/x',
    'postgres://a@[::1]/x',
    'postgres://a@/x?host=/run/postgresql',
    'postgres://a@/x?host=%2Frun%2Fpostgresql',
  ])('finds nothing about the encryption of %s, which stays on this machine', (url) => {
    expect(judgeEncryption(new Secret(url))).toEqual([]);
  });
});

describe('the script of doctor --sql', () => {
  it('names role, database and readers of the settings in the script, quoted, and no password', () => {
    const script = setUpScriptFor(new Secret('postgres://feed%20sync:hidden@db/my%22county'), ['qgis']);
    expect(script).toContain('CREATE ROLE "feed sync" LOGIN');
    expect(script).toContain('CREATE DATABASE "my""county"');
    expect(script).toContain('CREATE ROLE "qgis"');
    expect(script).not.toContain('hidden');
  });

  it('lets the role make schemas in the script only where destination.schemas has rules', () => {
    const grantOf = (rules: Parameters<typeof setUpScriptFor>[2]) =>
      /GRANT (.*) ON DATABASE/.exec(setUpScriptFor(new Secret('postgres://a@db/x'), [], rules))?.[1];
    expect(grantOf([])).toBe('CONNECT, TEMPORARY');
    expect(grantOf([{ datasets: '*', schema: '{1}' }])).toBe('CONNECT, TEMPORARY, CREATE');
  });

  it('refuses to write the script without an address of a database', () => {
    expect(() => setUpScriptFor(null, [])).toThrow('destination.url names no database');
  });
});

describe('the findings of doctor about the schemas of tables', () => {
  const RULES = [{ datasets: 'us-*-*', schema: 'us_{1}' }];
  const among = (schemas: Readonly<Record<string, string>>, rules: typeof RULES | null) => {
    const datasets = new Map(
      Object.entries(schemas).map(
        ([datasetId, schemaName]) => [datasetId, table(1, { datasetId, schemaName })] as const,
      ),
    );
    return judgeSchemas({ datasets }, rules, 'feeds');
  };

  it('says nothing where every table is in the schema that destination.schemas says', () => {
    const schemas = { 'us-tx-parcels': 'us_tx', 'fr-75': 'feeds' };
    expect(among(schemas, RULES)).toEqual([]);
    expect(among({ 'fr-75': 'feeds' }, [])).toEqual([]);
    expect(among({}, RULES)).toEqual([]);
  });

  it('names the tables that are in other schemas than destination.schemas says, as information', () => {
    const schemas = { 'us-az-roads': 'feeds', 'us-tx-parcels': 'us_tx', 'fr-75': 'old' };
    expect(among(schemas, RULES)).toMatchObject([
      {
        about: 'schemas',
        state: 'ok',
        exitCode: 0,
        hints: ['To load them again and move them there: feed-sync resync --all --move'],
        found:
          'the tables of 2 datasets are in other schemas than destination.schemas says: us-az-roads (in feeds, not us_az), fr-75 (in old, not feeds)',
      },
    ]);
    expect(among({ 'us-az-roads': 'us_az' }, [])[0]?.found).toBe(
      'the table of 1 dataset is in another schema than destination.schemas says: us-az-roads (in us_az, not feeds)',
    );
  });

  it('warns where the role may make no schemas and destination.schemas has rules', () => {
    const judgedFor = (mayCreateSchemas: boolean, rules: typeof RULES | null) =>
      judgeSchemaRights({ role: 'mirror', mayCreateSchemas }, rules).map(({ about, state }) => [
        about,
        state,
      ]);
    expect(judgedFor(false, RULES)).toEqual([['schemas', 'warning']]);
    expect([judgedFor(true, RULES), judgedFor(false, []), judgedFor(false, null)]).toEqual([[], [], []]);
  });

  it('judges no schemas where destination.schemas is not known', () => {
    expect(among({ 'us-az-roads': 'feeds' }, null)).toEqual([]);
  });
});
