/**
 * How the values of settings are read: one `Kind` for durations, sizes, lists and so on. A reading gives the value
 * or the trouble with it, as the part of a sentence that follows the key: "is 'abc', which is not a duration; …".
 *
 * Invariant: a kind for secrets never puts any part of a value into its trouble.
 */

import { resolve } from 'node:path';
import { Cron } from 'croner';
import ipaddr from 'ipaddr.js';
import { Secret } from '../lib/secret.ts';
import { parseDurationMs, parseSizeBytes } from '../lib/units.ts';
import type { ListenAddress } from './configuration.ts';
import { quoted } from './problems.ts';

export type Reading<Value> = { readonly value: Value } | { readonly fault: string };

export interface Kind<Value> {
  /** What stands for a value in help texts: `duration`. */
  readonly placeholder: string;
  /** Reads what stands in a flag or a variable, trimmed and not empty. Relative paths start at `directory`. */
  readText(text: string, directory: string): Reading<Value>;
  /** Reads a value of the file, as YAML gives it, never null. Relative paths start at `directory`. */
  readYaml(value: unknown, directory: string): Reading<Value>;
}

interface ScalarOptions<Value> {
  readonly placeholder: string;
  /** What to write, after "write": `for example 30s or 5m`. */
  readonly advice: string;
  readonly readText: (text: string, directory: string) => Reading<Value>;
  readonly acceptsNumbers?: boolean;
}

/** A kind whose values are one piece of text, in the file too. */
function scalar<Value>(options: ScalarOptions<Value>): Kind<Value> {
  return {
    placeholder: options.placeholder,
    readText: options.readText,
    readYaml(value, directory) {
      const isText = typeof value === 'string' || (typeof value === 'number' && options.acceptsNumbers);
      if (!isText) return { fault: `is ${shapeOf(value)}; write ${options.advice}` };
      const text = String(value).trim();
      return text === '' ? { fault: 'is empty' } : options.readText(text, directory);
    },
  };
}

interface Range {
  /** Smallest and largest value, both allowed, as a person writes them. */
  readonly min: string;
  readonly max: string;
  /** Why less is refused, as a clause, where the number does not say so by itself. */
  readonly whyMin?: string;
}

/** Milliseconds. */
export function duration(range: Range): Kind<number> {
  return measure({ noun: 'duration', advice: 'for example 30s or 5m', parse: parseDurationMs, ...range });
}

/** Bytes. */
export function size(range: Range): Kind<number> {
  return measure({ noun: 'size', advice: 'for example 64MB or 4GB', parse: parseSizeBytes, ...range });
}

/** A whole number. */
export function count(range: Range): Kind<number> {
  const parse = (text: string) => (/^\d{1,9}$/.test(text) ? Number(text) : null);
  const advice = `a number from ${range.min} to ${range.max}`;
  return measure({ noun: 'whole number', advice, parse, acceptsNumbers: true, ...range });
}

interface MeasureOptions extends Range {
  readonly noun: string;
  readonly advice: string;
  readonly parse: (text: string) => number | null;
  readonly acceptsNumbers?: boolean;
}

function measure(options: MeasureOptions): Kind<number> {
  const { noun, advice, parse, min, max, whyMin, acceptsNumbers = false } = options;
  const readText = (text: string): Reading<number> => {
    const value = parse(text);
    if (value === null) {
      const fault = /^\d+$/.test(text) && !acceptsNumbers ? 'has no unit' : `is not a ${noun}`;
      return { fault: `is ${quoted(text)}, which ${fault}; write ${advice}` };
    }
    if (value < (parse(min) ?? Number.NaN)) {
      const why = whyMin === undefined ? '' : `: ${whyMin}`;
      return { fault: `is ${quoted(text)}, and the least is ${min}${why}` };
    }
    if (value > (parse(max) ?? Number.NaN)) return { fault: `is ${quoted(text)}, and the most is ${max}` };
    return { value };
  };
  return scalar({ placeholder: acceptsNumbers ? 'number' : noun, advice, readText, acceptsNumbers });
}

/** One of a few words. */
export function choice<const Word extends string>(words: readonly Word[]): Kind<Word> {
  const advice = `one of ${words.join(', ')}`;
  return scalar({
    placeholder: words.join('|'),
    advice,
    readText: (text) => {
      const word = words.find((candidate) => candidate === text);
      return word === undefined ? { fault: `is ${quoted(text)}; write ${advice}` } : { value: word };
    },
  });
}

/** The absolute path of a file or a folder, which need not exist. */
export function path(names: 'file' | 'folder'): Kind<string> {
  return scalar({
    placeholder: names,
    advice: `the path of a ${names}, in quotes`,
    readText: (text, directory) => {
      const refuse = (fault: string) => ({ fault: `is ${quoted(text)}, ${fault}` });
      if (text.includes('\0')) return refuse('which no path can hold');
      if (text.startsWith('~')) return refuse('and ~ has no meaning here; write the whole path');
      if (names === 'file' && /[/\\]$/.test(text)) return refuse('which is a folder; name the file in it');
      return { value: resolve(directory, text) };
    },
  });
}

const MAX_SECRET_CHARACTERS = 4_096;

/** A key or password that can stand in a header: visible ASCII without white space. */
export const secret: Kind<Secret> = {
  placeholder: 'key',
  readText(text) {
    if (text.length > MAX_SECRET_CHARACTERS) {
      return { fault: `is longer than ${MAX_SECRET_CHARACTERS} characters; is it the key alone?` };
    }
    if (!/^[\x21-\x7e]+$/.test(text)) {
      return {
        fault: 'holds white space, a control character or a letter outside ASCII, which no key does',
      };
    }
    return { value: new Secret(text) };
  },
  readYaml(value, directory) {
    if (typeof value !== 'string') return { fault: 'is not text; put it in quotes' };
    const text = value.trim();
    return text === '' ? { fault: 'is empty' } : secret.readText(text, directory);
  },
};

/** Several values: separated by commas in a flag or variable, a list in the file. */
export function list<Value>(
  item: Kind<Value>,
  emptiness: 'may be empty' | 'not empty',
): Kind<readonly Value[]> {
  const readItems = (readings: readonly Reading<Value>[]): Reading<readonly Value[]> => {
    const troubles = readings.flatMap((reading, index) =>
      'fault' in reading ? [`item ${index + 1} ${reading.fault}`] : [],
    );
    if (troubles.length > 0) return { fault: troubles.join('; ') };
    const values = readings.flatMap((reading) => ('value' in reading ? [reading.value] : []));
    if (values.length > 0 || emptiness === 'may be empty') return { value: values };
    return { fault: 'is an empty list; name at least one, or leave it out for all' };
  };
  return {
    placeholder: `${item.placeholder},…`,
    readText: (text, directory) => {
      const items = text.split(',').map((part) => part.trim());
      return readItems(items.filter((part) => part !== '').map((part) => item.readText(part, directory)));
    },
    readYaml: (value, directory) =>
      Array.isArray(value)
        ? readItems(value.map((part: unknown) => item.readYaml(part, directory)))
        : { fault: `is ${shapeOf(value)}; write a list, for example ["one", "two"]` },
  };
}

function shapeOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return `the text ${quoted(value)}`;
  if (typeof value === 'number') return `the number ${value}`;
  return value === null ? 'empty' : typeof value === 'object' ? 'a group of keys' : String(value);
}

/** The service's address: https, or http where it stays on this machine. Without a trailing slash. */
export const baseUrl: Kind<string> = scalar({
  placeholder: 'url',
  advice: 'an address such as https://feed.example.com',
  readText: (text) => {
    const url = URL.canParse(text) ? new URL(text) : null;
    if (url === null)
      return addressProblem(text, 'which is not an address; write for example https://feed.example.com');
    const fault = faultOfAddress(url) ?? faultOfBasePath(url);
    if (fault !== null) return addressProblem(text, fault);
    if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url.hostname))) {
      return addressProblem(text, 'which is not https; http is for a loopback address only');
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
      return addressProblem(text, 'which is not an origin; write for example https://files.example.com');
    const fault =
      faultOfAddress(url) ?? (url.pathname === '/' ? null : 'which has a path; write the origin alone');
    return fault === null ? { value: url.origin } : addressProblem(text, fault);
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
    if (!text.startsWith('/')) return { fault: `is ${quoted(text)}, which does not start with /` };
    const places = text.match(/\{[^}]*\}/g) ?? [];
    if (places.length !== 1 || !MANIFEST_PLACES.includes(places[0] ?? '')) {
      return {
        fault: `is ${quoted(text)}, which must hold {subscriptionId} or {datasetId}, one of them and once`,
      };
    }
    if (!PATH_TEMPLATE.test(text)) {
      return {
        fault: `is ${quoted(text)}, which is not a path; write it without host, query and white space`,
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
      return { fault: `is ${quoted(text)}, which is not a parameter's name` };
    if (PAGING_PARAMETERS.includes(text)) return { fault: `is ${quoted(text)}, which turns pages` };
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
      : { fault: `is ${quoted(text)}, which is no time that comes; write for example "0 6 * * *"` },
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
      ? { fault: `is ${quoted(text)}; name what to leave out in datasets.exclude, without the !` }
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

function addressProblem(text: string, fault: string): Reading<string> {
  const withoutCredentials = text
    .replace(/^(\w+:\/\/)?.*@/s, '$1…@')
    .replace(/[?#].*$/s, (rest) => `${rest[0]}…`);
  return { fault: `is ${quoted(withoutCredentials)}, ${fault}` };
}

const OFF = 'off';
const LARGEST_PORT = 65_535;

/** `127.0.0.1:9464`, `[::1]:9464`, `localhost:0`. */
const ADDRESS = /^(?:\[([\da-f:.]+)\]|([a-z\d](?:[a-z\d.-]{0,251}[a-z\d])?)):(\d{1,5})$/i;

/** Null: it does not listen. Port 0 stands for any that is free. */
export const listenAddress: Kind<ListenAddress | null> = scalar({
  placeholder: 'host:port',
  advice: 'an address such as 127.0.0.1:9464, or off',
  readText: (text): Reading<ListenAddress | null> => {
    if (text === OFF) return { value: null };
    const [, address, name, digits] = ADDRESS.exec(text) ?? [];
    const host = address ?? name;
    const isHost = host !== undefined && (address === undefined || ipaddr.IPv6.isValid(address));
    if (!isHost || Number(digits) > LARGEST_PORT) {
      return {
        fault: `is ${quoted(text)}, which is not a host and a port; write for example 127.0.0.1:9464, or off`,
      };
    }
    return { value: { host, port: Number(digits) } };
  },
});
