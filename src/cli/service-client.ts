/** Opens the clients of the service for the time of one command. */

import { createHash } from 'node:crypto';
import type { Configuration } from '../configuration/configuration.ts';
import { usableMemory } from '../configuration/setting.ts';
import type { ObservedState } from '../destination/destination.ts';
import { createFeed, createOperator } from '../feed/create-feed.ts';
import type { Feed } from '../feed/feed.ts';
import { listBytesFor } from '../feed/http/list-budget.ts';
import type { FeedOptions } from '../feed/http/options.ts';
import type { Operator } from '../feed/operator.ts';
import type { Log } from '../lib/log.ts';
import type { Context } from './context.ts';
import { logFor } from './render/screen.ts';

/** Calls `use` with the client that reads the feed, then closes it. */
export async function usingFeed<T>(
  configuration: Configuration,
  context: Context,
  options: Partial<FeedOptions>,
  use: (feed: Feed) => Promise<T>,
): Promise<T> {
  const log = logFor(configuration, context.terminal);
  const feed = createFeed({ ...feedOptions(configuration, context, log), ...options });
  return use(feed).finally(() => feed.close());
}

/** Calls `use` with the client for an operator's requests, then closes it. */
export async function usingOperator<T>(
  configuration: Configuration,
  context: Context,
  use: (operator: Operator) => Promise<T>,
): Promise<T> {
  const log = logFor(configuration, context.terminal);
  const operator = createOperator(feedOptions(configuration, context, log));
  return use(operator).finally(() => operator.close());
}

/** Returns the options of the service's client. Without a checkpoint the client remembers nothing about the service. */
export function feedOptions(
  { service, http, retry, downloads, disk }: Configuration,
  { environment, clock, random, machine }: Pick<Context, 'environment' | 'clock' | 'random' | 'machine'>,
  log: Log,
): FeedOptions {
  return {
    baseUrl: service.baseUrl,
    apiKey: service.apiKey,
    contract: service.contract,
    remembered: { manifestPath: null, newerThanParameter: null },
    onContractDiscovered() {},
    http: { ...http, maxListBytes: listBytesFor(usableMemory(machine), machine.heapBytes) },
    retry,
    downloads,
    diskReserveBytes: disk.reserveBytes,
    proxy: proxyOf(environment),
    clock,
    random,
    log,
  };
}

/** Reads the proxies of the environment. Both spellings are in use; the lower-case one is older and wins, as in curl. */
export function proxyOf(environment: Context['environment']): FeedOptions['proxy'] {
  const either = (name: string): string | null =>
    environment[name.toLowerCase()] ?? environment[name] ?? null;
  return { httpProxy: either('HTTP_PROXY'), httpsProxy: either('HTTPS_PROXY'), noProxy: either('NO_PROXY') };
}

/** Returns hashes that distinguish keys and base URLs without revealing them. */
export function keyHashOf({ apiKey, baseUrl }: Pick<Configuration['service'], 'apiKey' | 'baseUrl'>): string {
  const ofKey = createHash('sha256').update('feed-sync key\n').update(apiKey.reveal()).digest('hex');
  const ofBaseUrl = createHash('sha256').update('feed-sync base URL\n').update(baseUrl).digest('hex');
  return `${ofKey}/${ofBaseUrl}`;
}

export function isKnownOrigin({ service }: Configuration, observed: Pick<ObservedState, 'service'>): boolean {
  return observed.service?.origin === new URL(service.baseUrl).origin;
}
