/** The configuration as the rest of the program sees it: one frozen, validated value. Durations in milliseconds, sizes in bytes. */

import type { LogFormat, LogLevel } from '../lib/log.ts';
import type { Secret } from '../lib/secret.ts';

/** What every command needs, also those that only look at what is on this machine. Paths are absolute. */
export interface LocalConfiguration {
  /** Globs on dataset ids (`*` stands for any text). All of them: include `*`, exclude nothing. */
  readonly datasets: { readonly include: readonly string[]; readonly exclude: readonly string[] };
  readonly dataDirectory: string;
  readonly destination: {
    readonly path: string;
    /** The copy for readers that stay open, and how often `run` makes one at most; null: none. */
    readonly publish: { readonly path: string; readonly everyMs: number } | null;
  };
  readonly checkpoint: { readonly path: string };
  /** How long a write waits for a reader of the mirror. */
  readonly lock: { readonly waitMs: number };
  /** Bytes kept free on the disk. */
  readonly disk: { readonly reserveBytes: number };
  readonly duckdb: { readonly memoryLimitBytes: number; readonly threads: number };
  readonly hooks: {
    /** The program and its words, run after commits; null: none. */
    readonly afterCommit: readonly string[] | null;
    readonly timeoutMs: number;
  };
  /** The file of the webhooks' secrets; null: none. */
  readonly webhook: { readonly secretFile: string | null };
  readonly log: { readonly level: LogLevel; readonly format: LogFormat };
}

/** What only the commands that talk to the service need. */
export interface ServiceConfiguration {
  readonly service: {
    /** https, or http on a loopback address; without a trailing slash. */
    readonly baseUrl: string;
    readonly apiKey: Secret;
    /** What the user says of the names that the interface leaves open; null: discovered. */
    readonly contract: {
      readonly manifestPath: string | null;
      readonly newerThanParameter: string | null;
      /** How long a manifest that does not say how far it goes may lag. */
      readonly manifestLagMs: number;
    };
  };
  /** Ids or names; null: all. */
  readonly subscriptions: readonly string[] | null;
  /** When `run` asks whether something was published. */
  readonly poll: Cadence;
  /** How often `run` compares all that is wanted with the manifests. */
  readonly audit: { readonly everyMs: number };
  /** What a schema change that only adds columns does; every other one loads the snapshot again. */
  readonly schemaChanges: 'reload' | 'alter';
  /** What becomes of the table of a dataset that no subscription holds any more. */
  readonly removedDatasets: 'archive' | 'drop' | 'keep';
  /** Origins as `new URL(…).origin` writes them. */
  readonly downloads: { readonly allowedOrigins: readonly string[] };
  /** How much of the changes of one dataset is staged at once. */
  readonly changes: { readonly maxStagedBytes: number };
  readonly http: {
    /** Longest silence of a connection. */
    readonly timeoutMs: number;
    readonly connections: number;
    readonly maxJsonBytes: number;
    readonly maxRetryAfterMs: number;
  };
  readonly retry: { readonly maxAttempts: number; readonly baseDelayMs: number; readonly maxDelayMs: number };
  /** Where `run` tells how it is; null: nowhere. */
  readonly status: { readonly listen: ListenAddress | null };
}

export interface ListenAddress {
  /** A name or an address, an IPv6 address without brackets. */
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
}

/** A schedule is a cron expression, in the time zone of the process. */
export type Cadence =
  | { readonly kind: 'every'; readonly everyMs: number }
  | { readonly kind: 'schedule'; readonly schedule: string };

export type Configuration = LocalConfiguration & ServiceConfiguration;
