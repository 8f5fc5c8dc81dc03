/**
 * The settings, as one zod schema in the shape of the file. Everything else follows from it: keys, variables, flags, the
 * checks, the value, help, the example file and the JSON Schema.
 */

import { z } from 'zod';
import { assert } from '../lib/assert.ts';
import { gateRule, schemaRules, unions } from './file-only-types.ts';
import {
  absent,
  type Default,
  dataDirectoryDefault,
  defaults,
  derived,
  halfOfMemory,
  inDataDirectory,
  inMegabytes,
  LEAST_MEMORY_LIMIT_BYTES,
  off,
  required,
  setting,
} from './setting.ts';
import {
  baseUrl,
  choice,
  command,
  count,
  databaseUrl,
  datasetGlob,
  duration,
  identifier,
  keyFile,
  list,
  listenAddress,
  manifestPath,
  origin,
  parameterName,
  path,
  rowLimit,
  schedule,
  secret,
  secretUrl,
  size,
} from './value-types.ts';

const MOST_THREADS = 1_024;

/** The settings of commands that talk to the service. */
const serviceSchema = z.strictObject({
  service: z.strictObject({
    baseUrl: setting(
      baseUrl,
      required('https://feed.example.com'),
      'The address of the service: https, or http on a loopback address.',
    ),
    apiKeyFile: setting(
      keyFile,
      required('/etc/feed-sync/api-key'),
      'The file that contains the API key, unless apiKey gives the key itself.',
    ),
    apiKey: setting(
      secret,
      absent('read from apiKeyFile, else from $CREDENTIALS_DIRECTORY/api-key', null, '"the key"'),
      'The API key, where it has no file of its own.',
    ),
    contract: z.strictObject({
      manifestPath: setting(
        manifestPath,
        absent('discovered', null, '/v1/subscriptions/{subscriptionId}/manifest'),
        'Where the service has its manifest, if it cannot be discovered.',
      ),
      newerThanParameter: setting(
        parameterName,
        absent('discovered', null, 'since'),
        'The parameter that asks for versions newer than a given one, if it cannot be discovered.',
      ),
      manifestLag: setting(
        duration('0s', '1d'),
        '15m',
        'How long a manifest that names no lastEventId may be behind the log.',
      ),
    }),
  }),
  subscriptions: setting(
    list(identifier, 1),
    absent('all', null, '["sub_1", "Texas parcels"]'),
    'The subscriptions to follow, by id or name.',
  ),
  poll: z.strictObject({
    every: setting(
      duration('1s', '7d'),
      '1m',
      'How often run asks whether something was published; up to a tenth sooner or later, by chance.',
    ),
    schedule: setting(
      schedule,
      absent('poll.every', null, '"0 6 * * *"'),
      'When run asks whether something was published, as a cron expression in local time (TZ).',
    ),
  }),
  audit: z.strictObject({
    every: setting(
      duration('1m', '30d'),
      '1h',
      'How often run compares all datasets with the manifests; it does so with the first poll after that time.',
    ),
  }),
  scrub: z.strictObject({
    every: setting(
      duration('1h', '365d'),
      '30d',
      'Within this time run reads every block of the mirror and the checkpoint, to find damage; not in PostgreSQL.',
    ),
  }),
  schemaChanges: setting(
    choice(['reload', 'alter']),
    'reload',
    'When a dataset gets new columns: reload loads all of it again; alter adds them to its table and applies the changes.',
  ),
  removedDatasets: setting(
    choice(['archive', 'drop', 'keep']),
    'archive',
    'The table of a dataset that left all subscriptions: archive moves it to the schema archived; drop deletes; keep lets it be.',
  ),
  downloads: z.strictObject({
    allowedOrigins: setting(
      list(origin, 0),
      absent<string[]>('none but public https addresses', [], '["https://files.example.com"]'),
      'Further origins that snapshots may come from, also private ones and plain http.',
    ),
  }),
  changes: z.strictObject({
    maxStagedBytes: setting(
      size('1MB', '1000TB'),
      '8GB',
      'How much of the changes of one dataset is staged at once. A version that has more falls back to the snapshot.',
    ),
  }),
  http: z.strictObject({
    timeout: setting(duration('100ms', '10m'), '30s', 'The longest silence of a connection to the service.'),
    connections: setting(
      count(2, 64, 'one is kept for polls while files are downloaded from the service'),
      '8',
      'How many connections to one origin are open at most, from 2 to 64. Downloads leave one to polls.',
    ),
    maxJsonBytes: setting(size('64KB', '400MB'), '64MB', 'The largest JSON answer that is accepted.'),
    maxRetryAfter: setting(duration('0s', '24h'), '15m', 'The longest wait that the service may ask for.'),
  }),
  retry: z.strictObject({
    maxAttempts: setting(count(1, 20), '6', 'How often a call is made before it counts as failed.'),
    baseDelay: setting(
      duration('1ms', '1h'),
      '500ms',
      'The wait after the first failed attempt; it doubles with each further one.',
    ),
    maxDelay: setting(duration('1ms', '1h'), '30s', 'The longest wait between two attempts.'),
  }),
  status: z.strictObject({
    listen: setting(
      listenAddress,
      '127.0.0.1:9464',
      'Where run serves its status and receives webhooks, or off. Other machines reach it only where this says so.',
    ),
    tokenFile: setting(path('file'), absent('none', null, './token'), 'The file of the token of /status.'),
  }),
});

/** The settings of every command, also of commands that only read this machine. */
const localSchema = z.strictObject({
  datasets: z.strictObject({
    include: setting(
      list(datasetGlob, 1),
      absent<string[]>('all', ['*'], '["us-tx-*"]'),
      'The datasets to mirror, by id; * stands for any text.',
    ),
    exclude: setting(
      list(datasetGlob, 0),
      absent<string[]>('none', [], '["*-permits"]'),
      'The datasets to leave out of those included, by id; * stands for any text.',
    ),
  }),
  dataDir: setting(
    path('folder'),
    derived('$STATE_DIRECTORY, else ./data', dataDirectoryDefault),
    'The folder for everything that is kept: mirror, checkpoint, downloads.',
  ),
  destination: z.strictObject({
    urlFile: setting(keyFile, absent('none', null, '/etc/feed-sync/database'), 'The file that holds url.'),
    url: setting(
      databaseUrl,
      absent('the DuckDB file at path', null, '"postgres://feed_sync@db.example.com/county"'),
      'The PostgreSQL database that is the mirror, in place of a DuckDB file, with its password.',
    ),
    lease: setting(duration('5s', '1h'), '30s', 'When the database of a dead feed-sync is taken over.'),
    readers: setting(
      list(identifier, 0),
      absent<string[]>('none', [], '["qgis", "reports"]'),
      'The roles of the PostgreSQL database that may read every table, new ones too.',
    ),
    indexes: setting(
      choice(['all', 'key', 'none']),
      'all',
      'The indexes of new tables in PostgreSQL: all are those of key and geometry.',
    ),
    schemas: setting(
      schemaRules,
      absent<[]>('one schema', [], '[{datasets: "us-*-*-*", schema: "us_{1}_{2}"}]'),
      'The schemas of new tables in PostgreSQL: the first rule that matches; {1} is what the first * matched.',
    ),
    path: setting(
      path('file'),
      derived('mirror.duckdb in dataDir', inDataDirectory('mirror.duckdb')),
      'The DuckDB file that is the mirror.',
    ),
    publish: setting(
      path('file'),
      absent('no copy', null, '/srv/feeds/parcels.duckdb'),
      'Where a copy of the mirror is renamed into place after commits, for readers that stay open.',
    ),
    publishEvery: setting(duration('1s', '30d'), '1m', 'How often run publishes a copy at most.'),
  }),
  history: z.strictObject({
    datasets: setting(
      list(datasetGlob, 0),
      absent<string[]>('none', [], '["us-tx-*"]'),
      'The datasets whose past is kept, so that it can be read and undone, by id; * stands for any text.',
    ),
    everyVersion: setting(
      choice(['off', 'on']),
      'off',
      'Whether each version of those datasets is a commit of its own; off: a backlog is one commit.',
    ),
    keep: setting(duration('1h', '3650d'), '90d', 'How long the past of those datasets is kept.'),
  }),
  gates: z.strictObject({
    removedRows: setting(
      rowLimit,
      off('[1000, 25%]'),
      'A commit that removes more rows waits for approval: a number, a share of the rows before, or both at once.',
    ),
    changedRows: setting(
      rowLimit,
      off('50%'),
      'The same for changed rows. A reload then compares whole rows, which takes about as long as the load.',
    ),
    emptied: setting(
      choice(['off', 'suspend']),
      'off',
      'Whether a commit that leaves a table without rows waits for approval.',
    ),
    rules: setting(
      list(gateRule, 0),
      absent<[]>('none', [], '[{datasets: ["us-tx-*"], removedRows: 10%, emptied: suspend}]'),
      'Other limits for some datasets: the first rule that matches counts; what it leaves out is as above.',
    ),
    keepCandidates: setting(
      size('0MB', '1000TB'),
      '10GB',
      'How many bytes of content that waits for approval are kept. The oldest is evicted, and fetched again once it is approved.',
    ),
  }),
  unions: setting(
    unions,
    absent<[]>('none', [], '{parcels: "us-*-parcels"}'),
    'Views over the tables of several datasets: the name of each, and the ids of its datasets; * stands for any text.',
  ),
  export: z.strictObject({
    path: setting(
      path('folder'),
      absent('off', null, '/srv/feeds/export'),
      'The folder of the export: each dataset as a GeoParquet file; manifest.json names the files of the newest generation.',
    ),
    every: setting(duration('1s', '30d'), '15m', 'How often run exports at most.'),
    keep: setting(
      count(1, 1_000),
      '2',
      'How many generations of the export are kept; the files of older ones are removed.',
    ),
  }),
  hooks: z.strictObject({
    afterCommit: setting(
      command,
      absent('none', null, '["./refresh.sh", "--all"]'),
      'The command that is run after commits, with what changed as JSON on its standard input; without a shell.',
    ),
    timeout: setting(
      duration('1s', '24h'),
      '5m',
      'How long that command may take before it is ended, with everything that it started.',
    ),
  }),
  checkpoint: z.strictObject({
    path: setting(
      path('file'),
      derived('checkpoint.sqlite in dataDir', inDataDirectory('checkpoint.sqlite')),
      'The SQLite file that remembers how far each subscription has been read.',
    ),
  }),
  lock: z.strictObject({
    wait: setting(duration('0s', '24h'), '60s', 'How long a write waits while a reader has the mirror open.'),
  }),
  disk: z.strictObject({
    reserve: setting(size('0MB', '1000TB'), '1GB', 'The space that is kept free on the disk.'),
  }),
  duckdb: z.strictObject({
    memoryLimit: setting(
      size(inMegabytes(LEAST_MEMORY_LIMIT_BYTES), '1000TB'),
      derived('half of what the container or machine has', ({ machine }) => halfOfMemory(machine)),
      'The memory that DuckDB may use before it writes to disk.',
    ),
    threads: setting(
      count(1, MOST_THREADS),
      derived('all cores', ({ machine }) => ({ text: String(Math.min(machine.cores, MOST_THREADS)) })),
      'How many threads DuckDB may use.',
    ),
  }),
  webhook: z.strictObject({
    secretFile: setting(
      path('file'),
      absent('off', null, './webhook-secrets'),
      'The file of the secrets that sign the webhooks of the service, a line for each, the newest first.',
    ),
  }),
  notify: z.strictObject({
    urlFile: setting(
      keyFile,
      absent('none', null, '/etc/feed-sync/notify-url'),
      'The file that contains the address for notifications, unless url gives it itself.',
    ),
    url: setting(
      secretUrl,
      absent('read from urlFile, else off', null, '"the address"'),
      'Where notifications are posted: any http or https address, on any network. It is a secret.',
    ),
    format: setting(
      choice(['json', 'slack']),
      'json',
      'The form of notifications: json, or that of incoming webhooks of Slack, which others take, too.',
    ),
  }),
  log: z.strictObject({
    level: setting(
      choice(['trace', 'debug', 'info', 'warn', 'error', 'silent']),
      'info',
      'The least important messages that are written.',
    ),
    format: setting(
      choice(['text', 'json']),
      derived('text on a terminal, json elsewhere', ({ stderrIsTerminal }) => ({
        text: stderrIsTerminal ? 'text' : 'json',
      })),
      'How messages are written to standard error.',
    ),
  }),
});

export const schema = z.strictObject({ ...serviceSchema.shape, ...localSchema.shape });

export type ServiceValues = z.output<typeof serviceSchema>;
export type LocalValues = z.output<typeof localSchema>;

type KeyIn<Shape> = {
  [Name in keyof Shape & string]: Shape[Name] extends z.ZodObject<infer Inner>
    ? `${Name}.${KeyIn<Inner>}`
    : Name;
}[keyof Shape & string];

type ValueIn<Tree, Key> = Key extends keyof Tree
  ? Tree[Key]
  : Key extends `${infer Group}.${infer Rest}`
    ? ValueIn<Tree[Group & keyof Tree], Rest>
    : never;

/** The key of a setting: `http.timeout`. */
export type SettingKey = KeyIn<typeof schema.shape>;
export type ValueOf<Key extends SettingKey> = ValueIn<ServiceValues & LocalValues, Key>;

export const VARIABLE_PREFIX = 'FEED_SYNC_';
/** Names the file itself, so there is no key for it. */
export const FILE_VARIABLE = `${VARIABLE_PREFIX}CONFIG`;
export const FILE_FLAG = '--config';

/** Settings whose values are too rich for one line of text. */
const FILE_ONLY: ReadonlySet<string> = new Set(['destination.schemas', 'gates.rules', 'unions']);

/** Never a flag, for everybody on the machine can read a command line. */
const SECRET = /^(service\.apiKey|notify\.url|destination\.url)/;

/**
 * Returns the variable of a key (`service.contract.manifestPath` → `FEED_SYNC_MANIFEST_PATH`): upper snake case, without SERVICE_ and
 * CONTRACT_.
 */
export function variableOf(key: string): string {
  const words = key.replace(/^service\.(contract\.)?/, '').replace(/[A-Z]/g, (letter) => `_${letter}`);
  return VARIABLE_PREFIX + words.replaceAll('.', '_').toUpperCase();
}

/** `FEED_SYNC_HTTP_TIMEOUT` → `--http-timeout`. */
function flagOf(variable: string): string {
  return `--${variable.slice(VARIABLE_PREFIX.length).toLowerCase().replaceAll('_', '-')}`;
}

export interface Setting {
  readonly key: SettingKey;
  readonly schema: z.ZodType;
  readonly default: Default;
  /** Null for a setting that only the file can hold. */
  readonly variable: string | null;
  /** `--http-timeout`. Null also for secrets and their files. */
  readonly flag: string | null;
  /** Stands for a value in help texts: `duration`. */
  readonly placeholder: string;
  /** One sentence. */
  readonly description: string;
}

function settingsIn(group: z.ZodObject, prefix: string): readonly Setting[] {
  return Object.entries(group.shape).flatMap(([name, part]): readonly Setting[] => {
    if (part instanceof z.ZodObject) return settingsIn(part, `${prefix}${name}.`);
    const schema = part as z.ZodType;
    const { title: placeholder = '', description = '' } = schema.meta() ?? {};
    const whenMissing = defaults.get(schema);
    assert(whenMissing !== undefined, `${prefix}${name} is a setting`);
    // The keys are joined from the names of the shape from which their type is made.
    const key = `${prefix}${name}` as SettingKey;
    const variable = FILE_ONLY.has(key) ? null : variableOf(key);
    const flag = variable === null || SECRET.test(key) ? null : flagOf(variable);
    return [{ key, schema, default: whenMissing, variable, flag, placeholder, description }];
  });
}

/** In the order of the example file. */
export const settings: ReadonlyMap<SettingKey, Setting> = new Map(
  settingsIn(schema, '').map((each) => [each.key, each]),
);
export const allKeys: readonly SettingKey[] = [...settings.keys()];
export const localKeys: readonly SettingKey[] = settingsIn(localSchema, '').map(({ key }) => key);

export function settingOf(key: SettingKey): Setting {
  const found = settings.get(key);
  assert(found !== undefined, `the setting ${key} is in the schema`);
  return found;
}

export function isSettingKey(name: string): name is SettingKey {
  return settings.has(name as SettingKey);
}

/** The groups of the file: `service`, `service.contract`, `http`, … */
export const groups: ReadonlySet<string> = new Set(
  allKeys.flatMap((key) => {
    const words = key.split('.');
    return words.slice(1).map((_, index) => words.slice(0, index + 1).join('.'));
  }),
);
