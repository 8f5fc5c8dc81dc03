/**
 * Whether the service was ever reached at the configured address. The mirror tells: it names the origin once the
 * subscriptions there were listed. The checkpoint does not, since what it follows may be of the address before.
 */

import type { Configuration } from '../configuration/configuration.ts';
import type { Held } from '../destination/destination.ts';

export function isKnownOrigin({ service }: Configuration, held: Pick<Held, 'service'>): boolean {
  return held.service?.origin === new URL(service.baseUrl).origin;
}
