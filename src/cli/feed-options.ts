/** From a configuration to the options of the service's client: the only place where the two meet. */

import type { Configuration } from '../configuration/configuration.ts';
import type { FeedOptions } from '../feed/options.ts';
import type { Log } from '../lib/log.ts';
import type { Context } from './context.ts';

/** What the client of the service is made from. Without a checkpoint at hand it remembers nothing of the service. */
export function feedOptions(
  { service, http, retry, downloads, disk }: Configuration,
  { environment, clock, random }: Context,
  log: Log,
): FeedOptions {
  return {
    baseUrl: service.baseUrl,
    apiKey: service.apiKey,
    contract: service.contract,
    remembered: { manifestPath: null, newerThanParameter: null },
    onContractLearned() {},
    http,
    retry,
    downloads,
    diskReserveBytes: disk.reserveBytes,
    proxy: proxyOf(environment),
    clock,
    random,
    log,
  };
}

/** Both spellings are in use; the lower-case one is the older and wins, as in curl. */
export function proxyOf(environment: Context['environment']): FeedOptions['proxy'] {
  const either = (name: string): string | null =>
    environment[name.toLowerCase()] ?? environment[name] ?? null;
  return { httpProxy: either('HTTP_PROXY'), httpsProxy: either('HTTPS_PROXY'), noProxy: either('NO_PROXY') };
}
