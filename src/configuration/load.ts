/**
 * Flags, environment, file and defaults → one configuration.
 *
 * Invariants: a configuration that is returned is whole, valid and frozen; whatever is wrong is reported at once, in
 * one error; the API key is in none of the texts.
 */

import type { Secret } from '../lib/secret.ts';
import { resolveApiKey } from './api-key.ts';
import type { Cadence, Configuration, LocalConfiguration, ServiceConfiguration } from './configuration.ts';

import {
  environmentLevel,
  type Flags,
  fileLevel,
  flagLevel,
  type Level,
  unknownVariables,
} from './levels.ts';
import { locateFile, type ReadFile, readSettingsFile } from './locate.ts';
import { type Problem, throwProblems } from './problems.ts';
import { type Resolution, resolvedValue, resolveSettings, type SettingSource } from './resolve.ts';
import { isApiKeyKey, localKeys, type SettingKey, type Surroundings, serviceKeys } from './settings.ts';

export interface LoadInput extends Surroundings {
  /** By their names, `--config` and those that `flagOf` gives: `{ '--log-level': 'debug' }`. */
  readonly flags: Flags;
  readonly readFile: ReadFile;
}

interface LoadedConfiguration<Part> {
  /** Deeply frozen. */
  readonly configuration: Part;
  /** For every setting that was read, its value as text and where that came from; secrets are masked. */
  readonly sources: ReadonlyMap<SettingKey, SettingSource>;
  /** The file that was read, an absolute path; null where there was none. */
  readonly filePath: string | null;
}

/**
 * The whole configuration, for commands that talk to the service.
 * @throws ConfigurationError that lists every problem.
 */
export function loadConfiguration(input: LoadInput): LoadedConfiguration<Configuration> {
  const { levels, filePath, problems } = openReadable(input);
  const keys = [...localKeys, ...serviceKeys].filter((key) => !isApiKeyKey(key));
  const resolution = resolveSettings(keys, levels, input);
  const { CREDENTIALS_DIRECTORY: credentialsDirectory = '' } = input.environment;
  const resolvedKey = resolveApiKey(levels, credentialsDirectory, input.readFile);
  const found = [...problems, ...resolution.problems, ...contradictions(resolution)];
  if ('problem' in resolvedKey) return throwProblems([...found, resolvedKey.problem]);
  if (found.length > 0) return throwProblems(found);
  const { value, source, filePath: keyPath } = resolvedKey.apiKey;
  const sources = new Map(resolution.sources).set('service.apiKey', { value: String(value), source });
  if (keyPath !== null) sources.set('service.apiKeyFile', { value: keyPath, source });
  const configuration = { ...localPart(resolution), ...servicePart(resolution, value) };
  return { configuration: deepFreeze(configuration), sources, filePath };
}

/**
 * The part for commands that only look at what is on this machine. It asks for neither address nor key, and does not
 * judge the settings of the service, so that one can look even where these are wrong.
 * @throws ConfigurationError that lists every problem.
 */
export function loadLocalConfiguration(input: LoadInput): LoadedConfiguration<LocalConfiguration> {
  const { levels, filePath, problems } = openReadable(input);
  const resolution = resolveSettings(localKeys, levels, input);
  const found = [...problems, ...resolution.problems, ...contradictions(resolution)];
  if (found.length > 0) return throwProblems(found);
  return { configuration: deepFreeze(localPart(resolution)), sources: resolution.sources, filePath };
}

interface OpenedLevels {
  /** The strongest first. Without that of a file that cannot be read. */
  readonly levels: readonly Level[];
  /** The file that was looked into, also where it cannot be read; null where there is none. */
  readonly filePath: string | null;
  /** False where there is a file and nothing is known of what it sets. */
  readonly isFileReadable: boolean;
  /** Names that nobody knows, and why the file cannot be read. */
  readonly problems: readonly Problem[];
}

export function openLevels({ flags, environment, workingDirectory, readFile }: LoadInput): OpenedLevels {
  const given = [flagLevel(flags, workingDirectory), environmentLevel(environment, workingDirectory)];
  const unknown = unknownVariables(environment);
  const located = locateFile({ flags, environment, workingDirectory, readFile });
  if (located.kind === 'none')
    return { levels: given, filePath: null, isFileReadable: true, problems: unknown };
  if (located.kind === 'fault') {
    const problems = [located.problem, ...unknown];
    return { levels: given, filePath: located.path, isFileReadable: false, problems };
  }
  const { path } = located;
  const { entries, problems, isReadable } = readSettingsFile(located.text, path);
  const levels = isReadable ? [...given, fileLevel(entries, path)] : given;
  return { levels, filePath: path, isFileReadable: isReadable, problems: [...problems, ...unknown] };
}

/** @throws ConfigurationError at once for a file that cannot be read: without it, everything would seem to be missing. */
function openReadable(input: LoadInput): OpenedLevels {
  const opened = openLevels(input);
  return opened.isFileReadable ? opened : throwProblems(opened.problems);
}

export function localPart(resolution: Resolution): LocalConfiguration {
  return {
    datasets: {
      include: resolvedValue(resolution, 'datasets.include'),
      exclude: resolvedValue(resolution, 'datasets.exclude'),
    },
    dataDirectory: resolvedValue(resolution, 'dataDir'),
    destination: { path: resolvedValue(resolution, 'destination.path'), publish: publishOf(resolution) },
    checkpoint: { path: resolvedValue(resolution, 'checkpoint.path') },
    lock: { waitMs: resolvedValue(resolution, 'lock.wait') },
    disk: { reserveBytes: resolvedValue(resolution, 'disk.reserve') },
    duckdb: {
      memoryLimitBytes: resolvedValue(resolution, 'duckdb.memoryLimit'),
      threads: resolvedValue(resolution, 'duckdb.threads'),
    },
    hooks: {
      afterCommit: resolvedValue(resolution, 'hooks.afterCommit'),
      timeoutMs: resolvedValue(resolution, 'hooks.timeout'),
    },
    webhook: { secretFile: resolvedValue(resolution, 'webhook.secretFile') },
    log: { level: resolvedValue(resolution, 'log.level'), format: resolvedValue(resolution, 'log.format') },
  };
}

function publishOf(resolution: Resolution): LocalConfiguration['destination']['publish'] {
  const path = resolvedValue(resolution, 'destination.publish');
  return path === null ? null : { path, everyMs: resolvedValue(resolution, 'destination.publishEvery') };
}

export function servicePart(resolution: Resolution, apiKey: Secret): ServiceConfiguration {
  return {
    service: {
      baseUrl: resolvedValue(resolution, 'service.baseUrl'),
      apiKey,
      contract: {
        manifestPath: resolvedValue(resolution, 'service.contract.manifestPath'),
        newerThanParameter: resolvedValue(resolution, 'service.contract.newerThanParameter'),
        manifestLagMs: resolvedValue(resolution, 'service.contract.manifestLag'),
      },
    },
    subscriptions: resolvedValue(resolution, 'subscriptions'),
    poll: cadenceOf(resolution),
    audit: { everyMs: resolvedValue(resolution, 'audit.every') },
    schemaChanges: resolvedValue(resolution, 'schemaChanges'),
    removedDatasets: resolvedValue(resolution, 'removedDatasets'),
    downloads: { allowedOrigins: resolvedValue(resolution, 'downloads.allowedOrigins') },
    changes: { maxStagedBytes: resolvedValue(resolution, 'changes.maxStagedBytes') },
    http: {
      timeoutMs: resolvedValue(resolution, 'http.timeout'),
      connections: resolvedValue(resolution, 'http.connections'),
      maxJsonBytes: resolvedValue(resolution, 'http.maxJsonBytes'),
      maxRetryAfterMs: resolvedValue(resolution, 'http.maxRetryAfter'),
    },
    retry: {
      maxAttempts: resolvedValue(resolution, 'retry.maxAttempts'),
      baseDelayMs: resolvedValue(resolution, 'retry.baseDelay'),
      maxDelayMs: resolvedValue(resolution, 'retry.maxDelay'),
    },
    status: { listen: resolvedValue(resolution, 'status.listen') },
  };
}

/** Judges only the settings that were resolved. */
export function contradictions(resolution: Resolution): readonly Problem[] {
  const problems: Problem[] = [];
  const blame = (key: SettingKey, fault: string) => {
    problems.push({ subject: key, fault, source: resolution.sources.get(key)?.source ?? null });
  };
  const written = (key: SettingKey) => resolution.sources.get(key)?.value ?? '';
  const have = (...keys: readonly SettingKey[]) => keys.every((key) => resolution.values.has(key));

  if (
    have('destination.path', 'checkpoint.path') &&
    resolvedValue(resolution, 'destination.path') === resolvedValue(resolution, 'checkpoint.path')
  ) {
    blame('checkpoint.path', 'is the same file as destination.path; give each its own');
  }
  for (const key of ['destination.path', 'checkpoint.path'] as const) {
    if (!have(key, 'destination.publish')) continue;
    if (resolvedValue(resolution, 'destination.publish') !== resolvedValue(resolution, key)) continue;
    blame('destination.publish', `is the same file as ${key}; a copy needs a file of its own`);
  }
  if (
    have('retry.baseDelay', 'retry.maxDelay') &&
    resolvedValue(resolution, 'retry.baseDelay') > resolvedValue(resolution, 'retry.maxDelay')
  ) {
    const delays = `is '${written('retry.baseDelay')}', longer than retry.maxDelay, ${written('retry.maxDelay')}`;
    blame('retry.baseDelay', delays);
  }
  const ofCadence = contradictionOfCadence(resolution);
  return ofCadence === null ? problems : [...problems, ofCadence];
}

export function deepFreeze<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) deepFreeze(part);
  return value;
}

const EVERY = 'poll.every';
const SCHEDULE = 'poll.schedule';

/** The strongest first; a source begins with the name of its level. */
const LEVELS = ['flag', 'environment', 'file'];

function cadenceOf(resolution: Resolution): Cadence {
  const schedule = resolvedValue(resolution, SCHEDULE);
  if (schedule === null || levelOf(resolution, EVERY) < levelOf(resolution, SCHEDULE)) {
    return { kind: 'every', everyMs: resolvedValue(resolution, EVERY) };
  }
  return { kind: 'schedule', schedule };
}

/** Null where one of the two is given, or each by a level of its own. */
function contradictionOfCadence(resolution: Resolution): Problem | null {
  const level = levelOf(resolution, EVERY);
  if (level === LEVELS.length || level !== levelOf(resolution, SCHEDULE)) return null;
  const sources = [EVERY, SCHEDULE].map((key) => resolution.sources.get(key as typeof EVERY)?.source);
  return { subject: EVERY, fault: `and ${SCHEDULE} are both set; keep one`, source: sources.join(' and ') };
}

/** The place among the levels; behind them all where no level has it. */
function levelOf({ sources }: Resolution, key: typeof EVERY | typeof SCHEDULE): number {
  const [name = ''] = (sources.get(key)?.source ?? '').split(' ');
  const level = LEVELS.indexOf(name);
  return level === -1 ? LEVELS.length : level;
}
