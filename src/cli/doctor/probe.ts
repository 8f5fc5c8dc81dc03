/** How doctor asks the service: less patiently than a catch-up, and only where it may. */

import type { Configuration } from '../../configuration/configuration.ts';
import type { FeedOptions } from '../../feed/http/options.ts';
import { silentLog } from '../../lib/log.ts';
import type { CheckpointContent } from '../../reporting/stores.ts';
import { type Suspensions, suspensionsAmong } from '../../sync/suspensions.ts';
import type { Context } from '../context.ts';
import { feedOptions, keyHashOf } from '../operator-session.ts';
import type { Facts } from './check.ts';

/** An operator waits: a service that does not answer is reported after two attempts. */
const MAX_ATTEMPTS = 2;
const MAX_SILENCE_MS = 10_000;
const MAX_DELAY_MS = 1_000;
/** A service that asks to wait is reported, not waited for. */
const MAX_RETRY_AFTER_MS = 0;

/** Facts about the service are not stored. */
export function probeOptions(
  configuration: Configuration,
  context: Context,
  checkpoint: CheckpointContent | null,
): FeedOptions {
  const options = feedOptions(configuration, context, silentLog);
  const { http, retry } = options;
  return {
    ...options,
    ...(checkpoint === null ? {} : { remembered: checkpoint.contract }),
    http: {
      ...http,
      timeoutMs: Math.min(http.timeoutMs, MAX_SILENCE_MS),
      maxRetryAfterMs: MAX_RETRY_AFTER_MS,
    },
    retry: {
      maxAttempts: Math.min(retry.maxAttempts, MAX_ATTEMPTS),
      baseDelayMs: Math.min(retry.baseDelayMs, MAX_DELAY_MS),
      maxDelayMs: Math.min(retry.maxDelayMs, MAX_DELAY_MS),
    },
  };
}

/** Why the requests after the list of subscriptions are skipped. */
export const KEY_NOT_ACCEPTED = 'The service does not accept the key, see key.';

/** Null where the service may be asked with the key. */
export function whyNotAsked(
  configuration: Configuration | null,
  { checkpoint, isReachable }: Facts,
): string | null {
  if (configuration === null) return 'The configuration is not good for it, see configuration.';
  if (suspensionsOf(checkpoint, configuration).workspace !== null) {
    return 'It is suspended, see checkpoint: nothing is asked of the service until you have acted on it.';
  }
  return isReachable ? null : 'There is no trusted connection to the service, see connection.';
}

/** Returns the suspensions of the checkpoint that count for this configuration. */
export function suspensionsOf(
  checkpoint: CheckpointContent | null,
  configuration: Configuration | null,
): Suspensions {
  const keyHash = configuration === null ? null : keyHashOf(configuration.service);
  return suspensionsAmong(checkpoint?.suspensions ?? [], keyHash);
}
