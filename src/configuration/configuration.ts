/**
 * The configuration as the rest of the program sees it, loaded or inspected. Durations are in milliseconds, sizes in bytes, paths
 * absolute.
 *
 * Invariants: a loaded configuration is whole, valid and frozen, and one error reports all problems. An inspection invents
 * nothing: a wrong value of a setting that names a place or selects data has no replacement; every other setting continues with
 * its default.
 */

import { assert } from '../lib/assert.ts';
import { placeOfDatabase, type Secret } from '../lib/secret.ts';
import { ConfigurationError } from '../model/errors.ts';
import { MACHINE_FILE, type Problem } from './file.ts';
import { type LoadInput, openLevels, resolveSettings, SECRETS } from './resolve.ts';
import {
  allKeys,
  FILE_FLAG,
  type LocalValues,
  localKeys,
  type ServiceValues,
  type SettingKey,
  type ValueOf,
} from './schema.ts';

/** The settings of every command, also of commands that only read this machine. */
export type LocalConfiguration = Frozen<ReturnType<typeof localConfiguration>>;

/** The settings of commands that talk to the service. */
export type ServiceConfiguration = Frozen<ReturnType<typeof serviceConfiguration>>;

export type Configuration = LocalConfiguration &
  ServiceConfiguration & {
    /** `--config FILE --data-dir FOLDER`, as words: with them a command finds this instance from any folder. */
    readonly placeOptions: readonly string[];
  };

/** The address to listen on; port 0: any free port. */
export type ListenAddress = NonNullable<ServiceConfiguration['status']['listen']>;

/** When `run` polls. A schedule is a cron expression, in the time zone of the process. */
export type Cadence = ServiceConfiguration['poll'];

type Frozen<Value> = Value extends Secret ? Value : { readonly [Name in keyof Value]: Frozen<Value[Name]> };

function localConfiguration(values: LocalValues) {
  const {
    datasets,
    dataDir,
    destination,
    checkpoint,
    lock,
    disk,
    duckdb,
    history,
    gates,
    unions,
    hooks,
    webhook,
    notify,
    log,
  } = values;
  const { path: exportPath, every: exportEveryMs, keep: exportKeep } = values.export;
  const { url, lease: leaseMs, readers, indexes, schemas, publish, publishEvery } = destination;
  return {
    datasets,
    dataDirectory: dataDir,
    destination: {
      path: destination.path,
      /** Names the mirror for people. */
      place: url === null ? destination.path : placeOfDatabase(url),
      /** Null: the mirror is a DuckDB file. */
      postgres: url === null ? null : { url, leaseMs, readers, indexes, schemas },
      publish: publish === null ? null : { path: publish, everyMs: publishEvery },
    },
    checkpoint,
    lock: { waitMs: lock.wait },
    disk: { reserveBytes: disk.reserve },
    duckdb: { memoryLimitBytes: duckdb.memoryLimit, threads: duckdb.threads },
    history: {
      datasets: history.datasets,
      everyVersion: history.everyVersion === 'on',
      keepMs: history.keep,
    },
    gates: {
      limits: {
        removedRows: gates.removedRows,
        changedRows: gates.changedRows,
        emptied: gates.emptied === 'suspend',
      },
      rules: gates.rules,
      keepCandidatesBytes: gates.keepCandidates,
    },
    unions,
    /** Null: nothing is exported. */
    export: exportPath === null ? null : { path: exportPath, everyMs: exportEveryMs, keep: exportKeep },
    hooks: { afterCommit: hooks.afterCommit, timeoutMs: hooks.timeout },
    webhook,
    notify: { url: notify.url, format: notify.format },
    log,
  };
}

function serviceConfiguration(values: ServiceValues) {
  const { service, poll, audit, http, retry } = values;
  const { apiKey } = service;
  assert(apiKey !== null, 'the API key is known');
  const { manifestPath, newerThanParameter, manifestLag } = service.contract;
  return {
    service: {
      baseUrl: service.baseUrl,
      apiKey,
      contract: { manifestPath, newerThanParameter, manifestLagMs: manifestLag },
    },
    subscriptions: values.subscriptions,
    poll: cadenceOf(poll),
    audit: { everyMs: audit.every },
    scrub: { everyMs: values.scrub.every },
    schemaChanges: values.schemaChanges,
    removedDatasets: values.removedDatasets,
    downloads: values.downloads,
    changes: values.changes,
    http: {
      timeoutMs: http.timeout,
      connections: http.connections,
      maxJsonBytes: http.maxJsonBytes,
      maxRetryAfterMs: http.maxRetryAfter,
    },
    retry: { maxAttempts: retry.maxAttempts, baseDelayMs: retry.baseDelay, maxDelayMs: retry.maxDelay },
    status: values.status,
  };
}

function cadenceOf({ every, schedule }: ServiceValues['poll']) {
  if (schedule === null) return { kind: 'every', everyMs: every } as const;
  return { kind: 'schedule', schedule } as const;
}

function deepFreeze<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) deepFreeze(part);
  return value;
}

export interface InspectedSetting {
  readonly key: SettingKey;
  /** The value as an operator would write it, secrets masked; null where unreadable or unknown. */
  readonly value: string | null;
  /** `flag --x`, `environment FEED_SYNC_X`, `file path:line`, `default`, or why the source is unknown. */
  readonly source: string;
  /** The rest of a sentence that begins with the key; null where the value is valid. */
  readonly problem: string | null;
}

interface Examined {
  /** The absolute path of the file; null where there is none. */
  readonly filePath: string | null;
  /** In the order of the example file. */
  readonly settings: readonly InspectedSetting[];
  /** All problems, including unknown keys and variables and the file itself. */
  readonly problems: readonly Problem[];
}

interface Loaded<Part> extends Examined {
  /** Deeply frozen. */
  readonly configuration: Part;
}

export interface Inspection extends Examined {
  /** Returns the value to continue with; null where unknown. */
  known<Key extends SettingKey>(key: Key): ValueOf<Key> | null;
  /** The whole configuration; null where an indispensable value is unknown. */
  readonly configuration: Configuration | null;
}

/** Loads the whole configuration, for commands that talk to the service. @throws ConfigurationError that lists every problem. */
export function loadConfiguration(input: LoadInput): Loaded<Configuration> {
  const { values, ...examined } = examine(input, allKeys);
  if (examined.problems.length > 0) return throwProblems(examined.problems);
  return { ...examined, configuration: wholeConfiguration(values, examined) };
}

/**
 * Loads the part for commands that only read this machine. It requires neither address nor key and does not validate the settings
 * of the service, so that these commands work even where those settings are wrong.
 * @throws ConfigurationError that lists every problem.
 */
export function loadLocalConfiguration(input: LoadInput): Loaded<LocalConfiguration> {
  const { values, ...examined } = examine(input, localKeys);
  if (examined.problems.length > 0) return throwProblems(examined.problems);
  return { ...examined, configuration: deepFreeze(localConfiguration(treeOf(values))) };
}

/** Inspects the configuration. Never throws because of the configuration's content. */
export function inspectConfiguration(input: LoadInput): Inspection {
  const { values, ...examined } = examine(input, allKeys);
  const isWhole = allKeys.every((key) => values.has(key) || SECRETS.some(({ fileKey }) => key === fileKey));
  return {
    ...examined,
    // The schema of each setting has read its value, or the value is the setting's default.
    known: <Key extends SettingKey>(key: Key) => (values.get(key) ?? null) as ValueOf<Key> | null,
    configuration: isWhole ? wholeConfiguration(values, examined) : null,
  };
}

type Values = ReadonlyMap<SettingKey, unknown>;

/** These settings name a place or select data: a default in place of a wrong value would mislead. */
const NOT_TO_BE_GUESSED = /^(?:service\.|dataDir$|destination\.|checkpoint\.|subscriptions$|datasets\.)/;

function examine(input: LoadInput, keys: readonly SettingKey[]): Examined & { readonly values: Values } {
  const opened = openLevels(input);
  const readings = resolveSettings(keys, opened, input);
  const harmless = keys.filter((key) => !NOT_TO_BE_GUESSED.test(key));
  const defaults = resolveSettings(harmless, { levels: [], isFileReadable: true }, input);
  const known = [...defaults, ...readings].filter(([, { value, fault }]) => {
    return value !== undefined && fault === null;
  });
  const problems = [...readings].flatMap(([subject, { fault, source }]) =>
    fault === null ? [] : [{ subject, fault, source }],
  );
  return {
    filePath: opened.filePath,
    settings: [...readings].map(([key, { shown, source, fault }]) => {
      return { key, value: shown, source: source ?? 'not set', problem: fault };
    }),
    problems: [...opened.problems, ...problems],
    values: new Map(known.map(([key, { value }]) => [key, value])),
  };
}

function wholeConfiguration(values: Values, examined: Examined): Configuration {
  const tree = treeOf(values);
  const placeOptions = placeOptionsOf(examined);
  return deepFreeze({ ...localConfiguration(tree), ...serviceConfiguration(tree), placeOptions });
}

/** Every command finds the file of the machine; the service manager states its folder to every command. */
function placeOptionsOf({ filePath, settings }: Examined): readonly string[] {
  const file = filePath === null || filePath === MACHINE_FILE ? [] : [FILE_FLAG, filePath];
  const folder = settings.find(({ key }) => key === 'dataDir');
  const isStated = folder === undefined || /^(?:file |environment STATE_DIRECTORY$)/.test(folder.source);
  return isStated || folder.value === null ? file : [...file, '--data-dir', folder.value];
}

/** The values in the shape of the schema. */
function treeOf(values: Values): LocalValues & ServiceValues {
  const tree: Record<string, unknown> = {};
  for (const [key, value] of values) {
    const words = key.split('.');
    const name = words.pop() ?? key;
    let group = tree;
    for (const word of words) {
      group[word] ??= {};
      group = group[word] as Record<string, unknown>;
    }
    group[name] = value;
  }
  // The schema of each setting has read its value, or the value is the setting's default.
  return tree as unknown as LocalValues & ServiceValues;
}

/** Always throws. @throws ConfigurationError with a line for each problem; there must be one. */
function throwProblems(problems: readonly Problem[]): never {
  const lines = problems.map(({ subject, fault, source }) =>
    source === null ? `  ${subject} ${fault}` : `  ${subject} ${fault} (${source})`,
  );
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  throw new ConfigurationError([`The configuration has ${count}:`, ...lines].join('\n'), {
    hint: 'feed-sync settings explains every key; feed-sync init writes a commented file of them.',
  });
}
