/** The environment of the command after commits: ours, without what is for us alone. Pure. */

import type { Secret } from '../lib/secret.ts';
import { holdsSecret } from '../lib/secret-forms.ts';

/** Where the key is found, and the ways in which the service manager is told how this process is. */
const OURS = new Set([
  'FEED_SYNC_API_KEY',
  'FEED_SYNC_API_KEY_FILE',
  'CREDENTIALS_DIRECTORY',
  'NOTIFY_SOCKET',
  'WATCHDOG_PID',
  'WATCHDOG_USEC',
]);

/** Nothing in it holds the API key, under whatever name. */
export function hookEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  apiKey: Secret,
): Readonly<Record<string, string>> {
  const key = apiKey.reveal();
  const handedOn = Object.entries(environment).flatMap(([name, value]) =>
    value === undefined || OURS.has(name) || tells(value, key) ? [] : [[name, value] as const],
  );
  return Object.fromEntries(handedOn);
}

/** A short key is no less one here, where a variable too few does little harm. */
function tells(value: string, key: string): boolean {
  return value.includes(key) || holdsSecret(value, [key]);
}
