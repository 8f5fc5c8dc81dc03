/** Asks for a file, and follows redirects: a few, each under the rules for links, and none with a header that it must not see. */

import type { Http, HttpAnswer, HttpRequest } from '../http/http.ts';
import { TransientTrouble } from '../http/trouble.ts';
import type { AddressGuard } from './address-guard.ts';
import { checkLink, type LinkRules } from './link-rules.ts';
import { RefusedLinkError } from './refused-link.ts';

const MAX_REDIRECTS = 3;
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];

export interface FileSource {
  readonly http: Http;
  readonly rules: LinkRules;
  readonly guard: AddressGuard;
}

/**
 * `link` is absolute, or relative to the base URL. `request` says how to ask.
 * @throws RefusedLinkError, TransientTrouble
 */
export async function openFile(
  link: string,
  request: Omit<HttpRequest, 'origin' | 'path'>,
  source: FileSource,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const { http, rules, guard } = source;
  let from: URL | null = null;
  let url = absolute(link, `${rules.baseUrl.href.replace(/\/$/, '')}/`);
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects += 1) {
    checkLink(url, from, rules);
    if (!rules.trustedOrigins.has(url.origin)) await guard.checkLiteral(url.hostname);
    const answer = await http.send(
      { ...request, origin: url.origin, path: `${url.pathname}${url.search}` },
      signal,
    );
    const location = answer.header('location');
    if (!REDIRECTS.includes(answer.status) || location === null) return answer;
    answer.discard();
    from = url;
    url = absolute(location, url.href);
  }
  throw new TransientTrouble(`its link is redirected more than ${MAX_REDIRECTS} times`);
}

function absolute(link: string, base: string): URL {
  if (URL.canParse(link, base)) return new URL(link, base);
  throw new RefusedLinkError('A link to a file cannot be read as an address.', { hint: 'Tell the service.' });
}
