/** Which links to files may be followed, as far as the link itself tells. Pure. */

import { shown } from '../shown.ts';
import { RefusedLinkError } from './refused-link.ts';

export interface LinkRules {
  readonly baseUrl: URL;
  /** The origin of the base URL, and those the configuration allows. */
  readonly trustedOrigins: ReadonlySet<string>;
}

/**
 * `from` is the address that redirected here; null for a link of the manifest.
 * @throws RefusedLinkError
 */
export function checkLink(link: URL, from: URL | null, rules: LinkRules): void {
  const place = shown(link.host === '' ? link.protocol : `${link.protocol}//${link.host}`);
  if (link.protocol !== 'https:' && link.protocol !== 'http:') {
    throw RefusedLinkError.because(place, 'which is no place on the web', TELL_THE_SERVICE);
  }
  if (link.username !== '' || link.password !== '') {
    throw RefusedLinkError.because(place, 'and carries a user name or password', TELL_THE_SERVICE);
  }
  if (link.protocol === 'https:') return;
  if (from?.protocol === 'https:') {
    throw RefusedLinkError.because(place, 'by a redirect from https to http', TELL_THE_SERVICE);
  }
  if (rules.baseUrl.protocol === 'https:' && !rules.trustedOrigins.has(link.origin)) {
    throw RefusedLinkError.because(
      place,
      'which is not encrypted',
      'Where the service is meant to keep its files there, name the origin in downloads.allowedOrigins.',
    );
  }
}

const TELL_THE_SERVICE = 'No setting allows this. Tell the service.';
