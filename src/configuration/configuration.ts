/**
 * The configuration as the rest of the program sees it: one frozen value. Durations in milliseconds, sizes in bytes, paths
 * absolute.
 */

import { assert } from '../lib/assert.ts';
import type { Secret } from '../lib/secret.ts';
import type { LocalValues, ServiceValues } from './schema.ts';

/** The settings of every command, also of commands that only read this machine. */
export type LocalConfiguration = Frozen<ReturnType<typeof localConfiguration>>;

/** The settings of commands that talk to the service. */
export type ServiceConfiguration = Frozen<ReturnType<typeof serviceConfiguration>>;

export type Configuration = LocalConfiguration & ServiceConfiguration;

/** Port 0: any free port. */
export type ListenAddress = NonNullable<ServiceConfiguration['status']['listen']>;

/** When `run` polls. A schedule is a cron expression, in the time zone of the process. */
export type Cadence = ServiceConfiguration['poll'];

type Frozen<Value> = Value extends Secret ? Value : { readonly [Name in keyof Value]: Frozen<Value[Name]> };

export function localConfiguration(values: LocalValues) {
  const { datasets, dataDir, destination, checkpoint, lock, disk, duckdb, hooks, webhook, log } = values;
  const { publish, publishEvery } = destination;
  return {
    datasets,
    dataDirectory: dataDir,
    destination: {
      path: destination.path,
      publish: publish === null ? null : { path: publish, everyMs: publishEvery },
    },
    checkpoint,
    lock: { waitMs: lock.wait },
    disk: { reserveBytes: disk.reserve },
    duckdb: { memoryLimitBytes: duckdb.memoryLimit, threads: duckdb.threads },
    hooks: { afterCommit: hooks.afterCommit, timeoutMs: hooks.timeout },
    webhook,
    log,
  };
}

export function serviceConfiguration(values: ServiceValues) {
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

export function deepFreeze<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) deepFreeze(part);
  return value;
}
