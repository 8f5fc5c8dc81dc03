/** What a setting is: how its value is read, what holds without one, and what to tell people about it. */

import { join, resolve } from 'node:path';
import {
  baseUrl,
  choice,
  count,
  datasetGlob,
  duration,
  identifier,
  type Kind,
  list,
  listenAddress,
  manifestPath,
  origin,
  parameterName,
  path,
  type Reading,
  schedule,
  secret,
  size,
} from './kinds.ts';
import { quoted } from './problems.ts';

export interface Setting<Value> {
  readonly kind: Kind<Value>;
  readonly default: Default<Value>;
  /** One sentence. */
  readonly description: string;
}

export type Default<Value> =
  /** There is none; the example takes its place in the example file. */
  | { readonly kind: 'required'; readonly example: string }
  /** A value as a person would write it. */
  | { readonly kind: 'written'; readonly text: string }
  /** A value that depends on where we run; `words` say so without naming the machine's. */
  | { readonly kind: 'derived'; readonly words: string; readonly derive: Derive }
  /** A value that no text stands for; `words` say what it means, and `example` what could be written instead. */
  | { readonly kind: 'absent'; readonly words: string; readonly value: Value; readonly example: string };

/** `dataDirectory` is absolute; it is the working directory while the data directory itself is looked for. */
type Derive = (surroundings: Surroundings, dataDirectory: string) => DerivedDefault;

interface DerivedDefault {
  /** As a person would write it. */
  readonly text: string;
  /** Where it comes from, where not from this program: `environment STATE_DIRECTORY`. */
  readonly source?: string;
}

/** What defaults depend on. */
export interface Surroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Absolute. */
  readonly workingDirectory: string;
  readonly machine: Machine;
  readonly stderrIsTerminal: boolean;
}

export interface Machine {
  readonly memoryBytes: number;
  /** What the container may use, as `process.constrainedMemory()` has it: 0, or more than there is, means no limit. */
  readonly constrainedMemoryBytes: number;
  readonly cores: number;
}

function required(example: string) {
  return { kind: 'required', example } as const;
}

function written(text: string) {
  return { kind: 'written', text } as const;
}

function derived(words: string, derive: Derive) {
  return { kind: 'derived', words, derive } as const;
}

function absent<const Value>(words: string, value: Value, example: string) {
  return { kind: 'absent', words, value, example } as const;
}

const ADVICE = 'write a list of words, for example ["./refresh.sh", "--all"]';

/**
 * A list of words in the file; in a flag, a variable or a text of the file words that white space parts. A program that
 * is a path starts where other paths do, one without a slash is looked for in PATH.
 */
const command: Kind<readonly string[]> = {
  placeholder: 'words',
  readText: (text, directory) => readWords(text.split(/\s+/), directory),
  readYaml(value, directory) {
    if (typeof value === 'string') return command.readText(value.trim(), directory);
    if (!Array.isArray(value)) return { fault: `is no command; ${ADVICE}` };
    const other = value.findIndex((word: unknown) => typeof word !== 'string');
    return other === -1
      ? readWords(value, directory)
      : { fault: `has a word ${other + 1} that is not text; write it in quotes` };
  },
};

function readWords(words: readonly string[], directory: string): Reading<readonly string[]> {
  const [program = '', ...rest] = words;
  if (program.trim() === '') return { fault: `names no program; ${ADVICE}` };
  const spoilt = words.find((word) => word.includes('\0'));
  if (spoilt !== undefined) return { fault: `has the word ${quoted(spoilt)}, which no command can hold` };
  if (program.startsWith('~'))
    return { fault: `is ${quoted(program)}, and ~ has no meaning here; write the whole path` };
  return { value: [program.includes('/') ? resolve(directory, program) : program, ...rest] };
}

/** A slip of the unit, 4MB for 4GB, shows here and not in the middle of a load. */
const LEAST_MEMORY_LIMIT_BYTES = 64e6;
const MOST_THREADS = 1_024;

const localSettings = {
  'datasets.include': {
    kind: list(datasetGlob, 'not empty'),
    default: absent('all', ['*'], '["us-tx-*"]'),
    description: 'The datasets to mirror, by id; * stands for any text.',
  },
  'datasets.exclude': {
    kind: list(datasetGlob, 'may be empty'),
    default: absent('none', [], '["*-permits"]'),
    description: 'The datasets to leave out of those included, by id; * stands for any text.',
  },
  dataDir: {
    kind: path('folder'),
    default: derived('$STATE_DIRECTORY, else ./data', dataDirectoryDefault),
    description: 'The folder for everything that is kept: mirror, checkpoint, downloads.',
  },
  'destination.path': {
    kind: path('file'),
    default: derived('mirror.duckdb in dataDir', inDataDirectory('mirror.duckdb')),
    description: 'The DuckDB file that is the mirror.',
  },
  'destination.publish': {
    kind: path('file'),
    default: absent('no copy', null, '/srv/feeds/parcels.duckdb'),
    description:
      'Where a copy of the mirror is renamed into place after commits, for readers that stay open.',
  },
  'destination.publishEvery': {
    kind: duration({ min: '1s', max: '30d' }),
    default: written('1m'),
    description: 'How often run publishes a copy at most.',
  },
  'hooks.afterCommit': {
    kind: command,
    default: absent('none', null, '["./refresh.sh", "--all"]'),
    description:
      'The command that is run after commits, with what changed as JSON on its standard input; without a shell.',
  },
  'hooks.timeout': {
    kind: duration({ min: '1s', max: '24h' }),
    default: written('5m'),
    description: 'How long that command may take before it and all that it started is ended.',
  },
  'checkpoint.path': {
    kind: path('file'),
    default: derived('checkpoint.sqlite in dataDir', inDataDirectory('checkpoint.sqlite')),
    description: 'The SQLite file that remembers how far each subscription has been read.',
  },
  'lock.wait': {
    kind: duration({ min: '0s', max: '24h' }),
    default: written('60s'),
    description: 'How long a write waits while a reader holds the mirror.',
  },
  'disk.reserve': {
    kind: size({ min: '0MB', max: '1000TB' }),
    default: written('1GB'),
    description: 'The space that is kept free on the disk.',
  },
  'duckdb.memoryLimit': {
    kind: size({ min: inMegabytes(LEAST_MEMORY_LIMIT_BYTES), max: '1000TB' }),
    default: derived('half of what the container or machine has', ({ machine }) => halfOfMemory(machine)),
    description: 'The memory that DuckDB may use before it writes to disk.',
  },
  'duckdb.threads': {
    kind: count({ min: '1', max: String(MOST_THREADS) }),
    default: derived('all cores', ({ machine }) => ({ text: String(Math.min(machine.cores, MOST_THREADS)) })),
    description: 'How many threads DuckDB may use.',
  },
  'webhook.secretFile': {
    kind: path('file'),
    default: absent('off', null, './webhook-secrets'),
    description:
      'The file of the secrets that sign what the service pushes to us, a line for each, the newest first.',
  },
  'log.level': {
    kind: choice(['trace', 'debug', 'info', 'warn', 'error', 'silent']),
    default: written('info'),
    description: 'The least important messages that are written.',
  },
  'log.format': {
    kind: choice(['text', 'json']),
    default: derived('text on a terminal, json elsewhere', ({ stderrIsTerminal }) => ({
      text: stderrIsTerminal ? 'text' : 'json',
    })),
    description: 'How messages are written to standard error.',
  },
} as const satisfies Readonly<Record<string, Setting<unknown>>>;

/** The service manager's folder for us; of several, the first. */
function dataDirectoryDefault({ environment }: Surroundings): DerivedDefault {
  const { STATE_DIRECTORY: directories = '' } = environment;
  const [directory = ''] = directories.split(':');
  return directory === '' ? { text: './data' } : { text: directory, source: 'environment STATE_DIRECTORY' };
}

function inDataDirectory(name: string): Derive {
  return (_surroundings, dataDirectory) => ({ text: join(dataDirectory, name) });
}

function halfOfMemory({ memoryBytes, constrainedMemoryBytes }: Machine): DerivedDefault {
  const usableBytes =
    constrainedMemoryBytes > 0 ? Math.min(constrainedMemoryBytes, memoryBytes) : memoryBytes;
  return { text: inMegabytes(Math.max(usableBytes / 2, LEAST_MEMORY_LIMIT_BYTES)) };
}

function inMegabytes(bytes: number): string {
  return `${Math.floor(bytes / 1e6)}MB`;
}

const serviceSettings = {
  'service.baseUrl': {
    kind: baseUrl,
    default: required('https://feed.example.com'),
    description: 'The address of the service: https, or http on a loopback address.',
  },
  'service.apiKeyFile': {
    kind: path('file'),
    default: required('/etc/feed-sync/api-key'),
    description: 'The file that holds the API key, unless apiKey gives the key itself.',
  },
  'service.apiKey': {
    kind: secret,
    default: absent('read from apiKeyFile, else from $CREDENTIALS_DIRECTORY/api-key', null, '"the key"'),
    description: 'The API key, where it has no file of its own.',
  },
  'service.contract.manifestPath': {
    kind: manifestPath,
    default: absent('discovered', null, '/v1/subscriptions/{subscriptionId}/manifest'),
    description: 'Where the service has its manifest, if it cannot be discovered.',
  },
  'service.contract.newerThanParameter': {
    kind: parameterName,
    default: absent('discovered', null, 'since'),
    description: 'The parameter that asks for versions newer than a given one, if it cannot be discovered.',
  },
  'service.contract.manifestLag': {
    kind: duration({ min: '0s', max: '1d' }),
    default: written('15m'),
    description: 'How long a manifest that names no lastEventId may be behind the log.',
  },
  subscriptions: {
    kind: list(identifier, 'not empty'),
    default: absent('all', null, '["sub_1", "Texas parcels"]'),
    description: 'The subscriptions to follow, by id or name.',
  },
  'poll.every': {
    kind: duration({ min: '1s', max: '7d' }),
    default: written('1m'),
    description:
      'How often run asks whether something was published; up to a tenth sooner or later, by chance.',
  },
  'poll.schedule': {
    kind: schedule,
    default: absent('poll.every', null, '"0 6 * * *"'),
    description: 'When run asks whether something was published, as a cron expression in local time (TZ).',
  },
  'audit.every': {
    kind: duration({ min: '1m', max: '30d' }),
    default: written('1h'),
    description:
      'How often run compares all that is wanted with the manifests, with the first poll after it.',
  },
  schemaChanges: {
    kind: choice(['reload', 'alter']),
    default: written('reload'),
    description:
      'When a dataset gets new columns: reload loads all of it again; alter adds them to its table and applies the changes.',
  },
  removedDatasets: {
    kind: choice(['archive', 'drop', 'keep']),
    default: written('archive'),
    description:
      'The table of a dataset that left all subscriptions: archive moves it to the schema archived; drop deletes; keep lets it be.',
  },
  'downloads.allowedOrigins': {
    kind: list(origin, 'may be empty'),
    default: absent('none but public https addresses', [], '["https://files.example.com"]'),
    description: 'Further origins that snapshots may come from, also private ones and plain http.',
  },
  'changes.maxStagedBytes': {
    kind: size({ min: '1MB', max: '1000TB' }),
    default: written('8GB'),
    description:
      'How much of the changes of one dataset is staged at once. A version that has more gives way to the snapshot.',
  },
  'http.timeout': {
    kind: duration({ min: '100ms', max: '10m' }),
    default: written('30s'),
    description: 'The longest silence of a connection to the service.',
  },
  'http.connections': {
    kind: count({
      min: '2',
      max: '64',
      whyMin: 'one is kept for polls while files are downloaded from the service',
    }),
    default: written('8'),
    description:
      'How many connections to one origin are open at most, from 2 to 64. Downloads leave one to polls.',
  },
  'http.maxJsonBytes': {
    kind: size({ min: '64KB', max: '400MB' }),
    default: written('64MB'),
    description: 'The largest JSON answer that is accepted.',
  },
  'http.maxRetryAfter': {
    kind: duration({ min: '0s', max: '24h' }),
    default: written('15m'),
    description: 'The longest wait that the service may ask for.',
  },
  'retry.maxAttempts': {
    kind: count({ min: '1', max: '20' }),
    default: written('6'),
    description: 'How often a call is made before it counts as failed.',
  },
  'retry.baseDelay': {
    kind: duration({ min: '1ms', max: '1h' }),
    default: written('500ms'),
    description: 'The wait after the first failed attempt; it doubles with each further one.',
  },
  'retry.maxDelay': {
    kind: duration({ min: '1ms', max: '1h' }),
    default: written('30s'),
    description: 'The longest wait between two attempts.',
  },
  'status.listen': {
    kind: listenAddress,
    default: written('127.0.0.1:9464'),
    description:
      'Where run tells how it is, and receives webhooks; off turns it off. Other machines see it only where this says so.',
  },
} as const satisfies Readonly<Record<string, Setting<unknown>>>;

export const settings = { ...serviceSettings, ...localSettings } as const;

export type SettingKey = keyof typeof settings;

/** What a setting's value is once it is read. */
export type ValueOf<Key extends SettingKey> =
  (typeof settings)[Key] extends Setting<infer Value> ? Value : never;

export const localKeys = Object.keys(localSettings) as readonly (keyof typeof localSettings)[];
export const serviceKeys = Object.keys(serviceSettings) as readonly (keyof typeof serviceSettings)[];
export const allKeys: readonly SettingKey[] = [...serviceKeys, ...localKeys];

/** The two ways to give the API key, of which a level has one. */
export type ApiKeyKey = 'service.apiKey' | 'service.apiKeyFile';

export function isApiKeyKey(key: SettingKey): key is ApiKeyKey {
  return key === 'service.apiKey' || key === 'service.apiKeyFile';
}

export function isSettingKey(name: string): name is SettingKey {
  return Object.hasOwn(settings, name);
}

/** The groups of the file: `service`, `service.contract`, `http`, … */
export const groups: ReadonlySet<string> = new Set(
  allKeys.flatMap((key) => {
    const words = key.split('.');
    return words.slice(1).map((_, index) => words.slice(0, index + 1).join('.'));
  }),
);
