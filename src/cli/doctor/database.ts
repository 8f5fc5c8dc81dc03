/** Checks the database that is the mirror: its server, the way to it, the role and its rights, PostGIS, locks, and the content. */

import { LIVE_SCHEMA } from '../../destination/postgres/catalog/names.ts';
import {
  type Blocker,
  type ExaminedServer,
  examineServer,
  OLD_TRANSACTION_MINUTES,
  setUpScript,
} from '../../destination/postgres/examine.ts';
import { openPostgresReader } from '../../destination/postgres/reader.ts';
import { LEAST_SERVER_VERSION, triggersOn } from '../../destination/postgres/server.ts';
import { placeOfDatabase, type Secret } from '../../lib/secret.ts';
import { formatDuration, plural } from '../../lib/units.ts';
import { ConfigurationError } from '../../model/errors.ts';
import type { SchemaRule } from '../../model/naming.ts';
import { identifier } from '../../staging/engine/sql.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { type Facts, type Finding, findingOf, ok, problem, warning } from './check.ts';
import { judgeHistory, judgeSchemas, judgeTables } from './content.ts';

export async function checkDatabase(
  url: Secret,
  facts: Facts,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { context, inspection } = facts;
  const readers = inspection.known('destination.readers') ?? [];
  const options = { url, readers, clock: context.clock, signal };
  const place = placeOfDatabase(url);
  const findings = [...judgeEncryption(url), NO_SCRUB];
  try {
    const examined = await examineServer(options);
    findings.push(...judgeServer(examined, place));
    findings.push(...judgeSchemaRights(examined, inspection.known('destination.schemas')));
    const reader = await openPostgresReader(options);
    if (reader === null) return [...findings, ok('content', `none yet in ${place}: feed-sync once makes it`)];
    try {
      facts.mirror = await reader.observed();
      return [
        ...findings,
        ...judgeTables(facts.mirror, inspection.known('service.baseUrl')),
        ...judgeSchemas(facts.mirror, inspection.known('destination.schemas'), LIVE_SCHEMA),
        ...judgeHistory(facts.mirror, await reader.pastLogs(), inspection.known('history.datasets')),
      ];
    } finally {
      await reader.close();
    }
  } catch (error) {
    return [...findings, findingOf('database', error)];
  }
}

const NO_SCRUB = ok('scrub', 'none: it is for a mirror in a file, and PostgreSQL looks after its own files');

/**
 * Returns the script that makes role, database and schemas for the address. @throws ConfigurationError where there is none
 */
export function setUpScriptFor(
  url: Secret | null,
  readers: readonly string[],
  rules: readonly SchemaRule[] = [],
): string {
  if (url === null) {
    throw new ConfigurationError('destination.url names no database, so there is nothing to make.', {
      hint: 'Set it first (FEED_SYNC_DESTINATION_URL), with the role and the database that are to be made.',
    });
  }
  const { role, database } = namesIn(url);
  return setUpScript({ role, database, readers, makesSchemas: rules.length > 0 });
}

const DEFAULT_NAME = 'feed_sync';

function namesIn(url: Secret): { readonly role: string; readonly database: string } {
  const address = addressOf(url);
  const role = decodeURIComponent(address?.username ?? '') || DEFAULT_NAME;
  return { role, database: decodeURIComponent(address?.pathname.slice(1) ?? '') || role };
}

/** An address by a socket has no host. */
function addressOf(url: Secret): URL | null {
  return URL.parse(url.reveal().replace(/@(?=\/)/, '@localhost'));
}

/** Returns the findings about a server that answers. Pure. */
export function judgeServer(examined: ExaminedServer, place: string): readonly Finding[] {
  const { version, majorVersion, encoding, isInRecovery, postgis } = examined;
  const wrong = EXIT_CODES.wrongConfiguration;
  const findings: Finding[] = [];
  if (majorVersion < LEAST_SERVER_VERSION) {
    const hint = `Use a server of PostgreSQL ${LEAST_SERVER_VERSION} or newer.`;
    findings.push(problem('server', `${place} is PostgreSQL ${version}.`, wrong, hint));
  } else findings.push(ok('server', `${place}, PostgreSQL ${version}`));
  if (isInRecovery) {
    const hint = 'Name the primary in destination.url, or all hosts and target_session_attrs=read-write.';
    findings.push(problem('server', 'The server is a standby, which cannot be written.', wrong, hint));
  }
  if (encoding !== 'UTF8') {
    const hint = "Make the database anew: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0";
    findings.push(
      problem('server', `The database has the encoding ${encoding}; feed-sync needs UTF8.`, wrong, hint),
    );
  }
  findings.push(
    ...judgeSettings(examined),
    ...judgeRole(examined),
    ...judgePooler(examined),
    judgeServerClock(examined),
  );
  findings.push(
    postgis === null
      ? warning(
          'PostGIS',
          'It is not in this database: geometries are stored as bytes (WKB).',
          'CREATE EXTENSION postgis',
        )
      : ok('PostGIS', `${postgis.version} in the schema ${postgis.schema}`),
  );
  return [
    ...findings,
    ...judgeCitus(examined),
    ...judgeUnlogged(examined),
    ...judgeLocks(examined),
    ...judgePast(examined),
  ];
}

function judgeCitus({ citus, mayRecover, role }: ExaminedServer): readonly Finding[] {
  if (citus === null) return [];
  if (mayRecover) return [ok('Citus', citus)];
  const found = `${citus}: the role may not end what a node that was lost has prepared, and waits a minute for Citus to do it.`;
  const hint = `GRANT EXECUTE ON FUNCTION pg_catalog.recover_prepared_transactions() TO ${identifier(role)}`;
  return [warning('Citus', found, hint)];
}

/** A commit into such a table is refused. */
function judgeUnlogged({ unloggedTables }: ExaminedServer): readonly Finding[] {
  if (unloggedTables.length === 0) return [];
  const found = `The server empties these tables when it crashes, because they were set UNLOGGED: ${unloggedTables.join(', ')}.`;
  const statements = unloggedTables.map((table) => `ALTER TABLE ${table} SET LOGGED`);
  return [problem('tables', found, EXIT_CODES.operatorMustAct, statements.join('; '))];
}

/** The settings that no session of feed-sync can set for itself, or may. */
function judgeSettings(examined: ExaminedServer): readonly Finding[] {
  const { role, areTriggersOff, isReadOnly, unsafeSettings } = examined;
  const findings: Finding[] = [];
  if (isReadOnly) {
    const found = `The sessions of ${role} may only read: default_transaction_read_only = on.`;
    const hint =
      'Set it off for the server, the database (ALTER DATABASE) or the role (ALTER ROLE); feed-sync waits.';
    findings.push(problem('settings', found, EXIT_CODES.tryAgainLater, hint));
  }
  if (areTriggersOff) {
    const found = `The role ${role} has session_replication_role = replica: no foreign key of a reader is checked.`;
    findings.push(problem('settings', found, EXIT_CODES.wrongConfiguration, triggersOn(role)));
  }
  if (unsafeSettings.length > 0) {
    const found = `The server has ${unsafeSettings.join(', ')}: it may lose or hide rows that were committed.`;
    const hint = 'Set them back to their defaults in postgresql.conf; verify finds what is lost until then.';
    findings.push(warning('settings', found, hint));
  }
  return findings;
}

function judgeRole({ role, missingRights, isSuperuser, unknownReaders }: ExaminedServer): readonly Finding[] {
  const findings: Finding[] = [];
  const script = 'To print a script that makes role and schemas, for a superuser: feed-sync doctor --sql';
  if (missingRights.length > 0) {
    const found = `The role ${role} may not: ${missingRights.join('; ')}.`;
    findings.push(problem('role', found, EXIT_CODES.operatorMustAct, script));
  } else if (isSuperuser) {
    const found = `${role} is a superuser, which may do more than feed-sync needs.`;
    findings.push(warning('role', found, 'A role that owns its schemas is enough.', script));
  } else findings.push(ok('role', `${role}, with the rights that it needs`));
  if (unknownReaders.length === 0) return findings;
  const found = `destination.readers names roles that do not exist: ${unknownReaders.join(', ')}.`;
  const hint = 'Create them (CREATE ROLE), or leave them out.';
  return [...findings, problem('readers', found, EXIT_CODES.wrongConfiguration, hint)];
}

/** Judges whether the schemas of new datasets can be made. `rules`: destination.schemas; null where it is not known. Pure. */
export function judgeSchemaRights(
  { role, mayCreateSchemas }: Pick<ExaminedServer, 'role' | 'mayCreateSchemas'>,
  rules: readonly SchemaRule[] | null,
): readonly Finding[] {
  if (mayCreateSchemas || rules === null || rules.length === 0) return [];
  const found = `The role ${role} may not create schemas, so those of destination.schemas that are missing cannot be made.`;
  const script = 'To print a script that gives the right, for a superuser: feed-sync doctor --sql';
  return [warning('schemas', found, script, 'Or make each of them: CREATE SCHEMA … AUTHORIZATION the role')];
}

function judgePooler({ isPooled }: ExaminedServer): readonly Finding[] {
  if (!isPooled) return [];
  const found = 'PgBouncer or another pooler stands between: pool_mode may be transaction or session';
  return [ok('pooler', `${found}, not statement`)];
}

/** The lease ends by the clock of the server, and commits have the time of this machine. */
const MAX_CLOCK_DIFFERENCE_MS = 30_000;

function judgeServerClock({ clockAheadMs }: ExaminedServer): Finding {
  const differenceMs = Math.abs(clockAheadMs);
  const side = clockAheadMs > 0 ? 'ahead of' : 'behind';
  if (differenceMs <= MAX_CLOCK_DIFFERENCE_MS)
    return ok('clock', 'that of the server is that of this machine');
  const found = `The clock of the server is ${formatDuration(differenceMs)} ${side} the clock of this machine.`;
  const hint = 'Have both set by NTP: the times of commits are those of this machine.';
  return warning('clock', found, hint);
}

function judgeLocks({ holder, blockers }: ExaminedServer): readonly Finding[] {
  const held = ok('lease', holder === null ? 'free: nobody works on the database' : `held by ${holder}`);
  if (blockers.length === 0) return [held];
  const what = plural(blockers.length, 'transaction');
  const since = `for more than ${OLD_TRANSACTION_MINUTES} minutes`;
  const listed = blockers.map(({ who, minutes }) => `${who}, ${minutes} minutes`).join('; ');
  const found = `${what} held tables of the mirror ${since}: ${listed}.`;
  const effect =
    'They keep dead rows from being removed, and a changed schema or a retirement waits for them.';
  return [held, warning('locks', found, effect, ...blockers.map(endOf))];
}

/** Nothing of a reader is ever dropped for the past to go. */
function judgePast({ pastHolders }: ExaminedServer): readonly Finding[] {
  if (pastHolders.length === 0) return [];
  const found = `Objects of readers keep the past from being forgotten: ${pastHolders
    .map(({ what, on }) => `${what} (on ${on})`)
    .join(', ')}.`;
  const hint =
    'Drop them, or have them read a copy of your own: what they hang on stays longer than history.keep.';
  return [warning('history', found, hint)];
}

function endOf({ pid, who }: Blocker): string {
  return pid === null
    ? `To end the prepared transaction ${who}: COMMIT PREPARED or ROLLBACK PREPARED`
    : `To end that of ${who}: SELECT pg_terminate_backend(${pid})`;
}

const LOCAL = /^(?:localhost|127\.[\d.]+|\[::1\]|)$/;
/** The words of the driver: those in the list encrypt and check the certificate of the server. */
const CHECKED = ['verify-full', 'verify-ca', 'require', 'prefer'];

/** The values of the driver's other parameter, `ssl`, that mean the same as `sslmode=verify-full`. */
const CHECKED_BY_SSL = ['true', '1'];

/** Judges the encryption, which a connection on this machine does not need. Pure. */
export function judgeEncryption(url: Secret): readonly Finding[] {
  const address = addressOf(url);
  const host = address?.searchParams.get('host') ?? address?.hostname ?? '';
  if (LOCAL.test(host) || host.startsWith('/')) return [];
  const isChecked = CHECKED_BY_SSL.includes(address?.searchParams.get('ssl') ?? '');
  const mode = address?.searchParams.get('sslmode') ?? (isChecked ? 'verify-full' : null);
  const shown = mode === null ? 'no sslmode' : `sslmode=${mode}`;
  if (mode === 'verify-full') return [ok('encryption', 'TLS, with the name of the server checked')];
  const hint = 'Add sslmode=verify-full to destination.url, and sslrootcert where the authority is your own.';
  if (mode !== null && CHECKED.includes(mode)) {
    const found = `destination.url has ${shown}: TLS with the certificate checked, which other programs take for less.`;
    return [warning('encryption', found, hint)];
  }
  const found =
    mode === 'no-verify'
      ? 'destination.url has sslmode=no-verify: whoever stands between can read and change everything.'
      : `destination.url has ${shown}: password and rows cross the network without encryption.`;
  return [warning('encryption', found, hint)];
}
