/** The way to the service: connections, the one request, and the API on top of it. The feed and the operator each have one. */

import { createAddressGuard, resolveBySystem } from './download/address-guard.ts';
import { createApi } from './http/api.ts';
import { createDispatchers } from './http/dispatchers.ts';
import { createHttp } from './http/http.ts';
import { noOutage } from './http/outage.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import type { ConnectionOptions } from './options.ts';

/** `allowedOrigins` are trusted beside that of the base URL. */
export function connect(options: ConnectionOptions, allowedOrigins: readonly string[]) {
  const { apiKey, clock, random, log } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const baseUrl = new URL(options.baseUrl);
  const { origin } = baseUrl;
  const trustedOrigins = new Set([origin, ...allowedOrigins]);
  const guard = createAddressGuard(baseUrl.hostname, options.resolveName ?? resolveBySystem);
  const dispatchers = createDispatchers(options.http, options.proxy, guard.lookup);
  const { timeoutMs, maxJsonBytes, maxRetryAfterMs } = options.http;
  const http = createHttp({
    origin,
    apiKey,
    trustedOrigins,
    dispatchers,
    connections: options.http.connections,
    timeoutMs,
    clock,
    log,
    onAsked: options.onAsked ?? (() => {}),
  });
  const tools = { clock, random, log };
  const policy = { ...options.retry, maxRetryAfterMs, deadlineMs: limits.operationDeadlineMs };
  const api = createApi({
    http,
    origin,
    basePath: baseUrl.pathname.replace(/\/+$/, ''),
    apiKey,
    maxJsonBytes,
    deadlineMs: limits.jsonDeadlineMs,
    retryPolicy: { ...policy, outage: noOutage() },
    tools,
  });
  return { origin, api, http, guard, rules: { baseUrl, trustedOrigins }, policy, tools, limits, dispatchers };
}
