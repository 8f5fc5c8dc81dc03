/**
 * How the values that name parts of the service are read: addresses, origins, paths, ids.
 *
 * Invariant: where an address may carry a password or a token, neither comes back in the trouble with it.
 */

import { Cron } from 'croner';
import ipaddr from 'ipaddr.js';
import { type Kind, type Reading, scalar } from './kinds.ts';
import { quoted } from './problems.ts';

/** The service's address: https, or http where it stays on this machine. Without a trailing slash. */
export const baseUrl: Kind<string> = scalar({
  placeholder: 'url',
  advice: 'an address such as https://feed.example.com',
  readText: (text) => {
    const url = URL.canParse(text) ? new URL(text) : null;
    if (url === null)
      return addressTrouble(text, 'which is not an address; write for example https://feed.example.com');
    const fault = faultOfAddress(url) ?? faultOfBasePath(url);
    if (fault !== null) return addressTrouble(text, fault);
    if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url.hostname))) {
      return addressTrouble(text, 'which is not https; http is for a loopback address only');
    }
    return { value: `${url.origin}${url.pathname.replace(/\/+$/, '')}` };
  },
});

/** A scheme, host and port: `https://files.example.com`. */
export const origin: Kind<string> = scalar({
  placeholder: 'origin',
  advice: 'an origin such as https://files.example.com',
  readText: (text) => {
    const url = URL.canParse(text) ? new URL(text) : null;
    const isWeb = url !== null && ['https:', 'http:'].includes(url.protocol);
    if (!isWeb)
      return addressTrouble(text, 'which is not an origin; write for example https://files.example.com');
    const fault =
      faultOfAddress(url) ?? (url.pathname === '/' ? null : 'which has a path; write the origin alone');
    return fault === null ? { value: url.origin } : addressTrouble(text, fault);
  },
});

/** One slash in front, so that it stays on the service's origin, and no query. */
const PATH_TEMPLATE = /^\/(?![/\\])[\w.~!$&'()*+,;=:@%/{}-]*$/;
const MANIFEST_PLACES = ['{subscriptionId}', '{datasetId}'];

/** The path of the manifest, with a place for one id. */
export const manifestPath: Kind<string> = scalar({
  placeholder: 'path',
  advice: 'a path such as /v1/subscriptions/{subscriptionId}/manifest',
  readText: (text) => {
    if (!text.startsWith('/')) return { trouble: `is ${quoted(text)}, which does not start with /` };
    const places = text.match(/\{[^}]*\}/g) ?? [];
    if (places.length !== 1 || !MANIFEST_PLACES.includes(places[0] ?? '')) {
      return {
        trouble: `is ${quoted(text)}, which must hold {subscriptionId} or {datasetId}, one of them and once`,
      };
    }
    if (!PATH_TEMPLATE.test(text)) {
      return {
        trouble: `is ${quoted(text)}, which is not a path; write it without host, query and white space`,
      };
    }
    return { value: text };
  },
});

/** These two already mean something on every list. */
const PAGING_PARAMETERS = ['limit', 'cursor'];

/** The name of a query parameter. */
export const parameterName: Kind<string> = scalar({
  placeholder: 'name',
  advice: 'a name such as since',
  readText: (text) => {
    if (!/^[\w.[\]$-]{1,64}$/.test(text))
      return { trouble: `is ${quoted(text)}, which is not a parameter's name` };
    if (PAGING_PARAMETERS.includes(text)) return { trouble: `is ${quoted(text)}, which turns pages` };
    return { value: text };
  },
});

/** An id or a name. */
export const identifier: Kind<string> = scalar({
  placeholder: 'id',
  advice: 'it in quotes',
  readText: (text) => ({ value: text }),
});

/** When something is done, as cron writes it, with seconds as a sixth field in front where they matter. */
export const schedule: Kind<string> = scalar({
  placeholder: 'cron',
  advice: 'a cron expression such as "0 6 * * *"',
  readText: (text) =>
    isSchedule(text)
      ? { value: text }
      : { trouble: `is ${quoted(text)}, which is no time that comes; write for example "0 6 * * *"` },
});

/** One that never comes, such as the 30th of February, would leave the mirror as it is for ever. */
function isSchedule(text: string): boolean {
  try {
    return new Cron(text, { paused: true }).nextRun() !== null;
  } catch {
    return false;
  }
}

/** A pattern of dataset ids, `*` for any text. */
export const datasetGlob: Kind<string> = scalar({
  placeholder: 'glob',
  advice: 'it in quotes',
  readText: (text) =>
    text.startsWith('!')
      ? { trouble: `is ${quoted(text)}; name what to leave out in datasets.exclude, without the !` }
      : { value: text },
});

/** True for 127.0.0.0/8, ::1 and localhost. `hostname` is that of a URL, an IPv6 address in brackets. */
export function isLoopback(hostname: string): boolean {
  const address = hostname.replace(/^\[|\]$/g, '');
  return address === 'localhost' || (ipaddr.isValid(address) && ipaddr.parse(address).range() === 'loopback');
}

function faultOfAddress(url: URL): string | null {
  if (url.username !== '' || url.password !== '') return 'which carries a user or password; leave them out';
  return /[?#]/.test(url.href) ? 'which has a query or fragment; leave it out' : null;
}

function faultOfBasePath(url: URL): string | null {
  return /\/v1\/*$/.test(url.pathname) ? 'which ends in /v1; leave that out, it is part of every path' : null;
}

function addressTrouble(text: string, fault: string): Reading<string> {
  const withoutCredentials = text
    .replace(/^(\w+:\/\/)?.*@/s, '$1…@')
    .replace(/[?#].*$/s, (rest) => `${rest[0]}…`);
  return { trouble: `is ${quoted(withoutCredentials)}, ${fault}` };
}
