/**
 * The types of settings as zod schemas, from an operator's text to a checked value. The message of an issue is the rest of the
 * sentence that begins with the key: "is 'abc', which is not a duration; write for example 30s or 5m". The title of a schema
 * stands for a value in help texts: `duration`.
 *
 * Invariant: no message of `secret` or `keyFile` contains a part of a secret.
 */

import { resolve } from 'node:path';
import { Cron } from 'croner';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { databaseAddress, isDecodable, Secret } from '../lib/secret.ts';
import { quoted } from '../lib/text.ts';
import { DURATION, parseDurationMs, parseSizeBytes, SIZE } from '../lib/units.ts';

/** A value that contains relative paths. They start at the directory of the level that the value comes from. */
export class Relative<Value> {
  readonly from: (directory: string) => Value;

  constructor(from: (directory: string) => Value) {
    this.from = from;
  }
}

interface Issue {
  readonly input?: unknown;
}

export function text(advice: string) {
  return plainText(({ input }: Issue) => `is ${shapeOf(input)}; write ${advice}`);
}

function plainText(error: string | ((issue: Issue) => string)) {
  return z.string({ error }).trim().min(1, { error: 'is empty', abort: true });
}

/** Returns a schema that accepts the texts of `written` and converts them by `read`, which may refuse with a message. */
export function textRead<Value>(
  title: string,
  written: z.ZodType<string, string>,
  read: (text: string, refuse: (message: string) => never) => Value,
) {
  const parsed = written.transform((text, context): Value => {
    return read(text, (message) => {
      context.addIssue(message);
      return z.NEVER;
    });
  });
  return parsed.meta({ title });
}

export function shapeOf(value: unknown): string {
  if (value === undefined) return 'missing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return `the text ${quoted(value)}`;
  if (typeof value === 'number') return `the number ${value}`;
  return value === null ? 'empty' : typeof value === 'object' ? 'a group of keys' : String(value);
}

interface Measure {
  readonly title: string;
  readonly advice: string;
  readonly pattern: RegExp;
  readonly parse: (text: string) => number | null;
}

/** Milliseconds. `min` and `max` are both allowed. */
export function duration(min: string, max: string) {
  const advice = 'for example 30s or 5m';
  return measure({ title: 'duration', advice, pattern: DURATION, parse: parseDurationMs }, min, max);
}

/** Bytes. `min` and `max` are both allowed. */
export function size(min: string, max: string) {
  const advice = 'for example 64MB or 4GB';
  return measure({ title: 'size', advice, pattern: SIZE, parse: parseSizeBytes }, min, max);
}

function measure({ title, advice, pattern, parse }: Measure, min: string, max: string) {
  const amount = (written: string) => parse(written) ?? Number.NaN;
  const refusal = ({ input }: Issue) => {
    const why = /^\d+$/.test(String(input)) ? 'has no unit' : `is not a ${title}`;
    return `is ${quoted(String(input))}, which ${why}; write ${advice}`;
  };
  const beyond = (bound: string) => {
    return { error: ({ input }: Issue) => `is ${quoted(String(input))}, and ${bound}` };
  };
  return text(advice)
    .regex(pattern, { error: refusal, abort: true })
    .refine((written) => amount(written) >= amount(min), beyond(`the least is ${min}`))
    .refine((written) => amount(written) <= amount(max), beyond(`the most is ${max}`))
    .transform(amount)
    .meta({ title });
}

/** Returns the type of a whole number. `whyMin` is a clause for a least number that does not explain itself. */
export function count(min: number, max: number, whyMin?: string) {
  const advice = `a number from ${min} to ${max}`;
  const isDigits = (input: unknown) => typeof input === 'string' && /^\d{1,9}$/.test(input);
  const error = ({ input }: Issue) =>
    typeof input === 'string' || typeof input === 'number'
      ? `is ${quoted(String(input))}, which is not a whole number; write ${advice}`
      : `is ${shapeOf(input)}; write ${advice}`;
  const why = whyMin === undefined ? '' : `: ${whyMin}`;
  const number = z
    .int({ error })
    .min(min, { error: ({ input }) => `is '${input}', and the least is ${min}${why}` })
    .max(max, { error: ({ input }) => `is '${input}', and the most is ${max}` });
  return z.preprocess((input) => (isDigits(input) ? Number(input) : input), number).meta({ title: 'number' });
}

export function choice<const Word extends string>(words: readonly Word[]) {
  const error = ({ input }: Issue) =>
    `is ${typeof input === 'string' ? quoted(input) : shapeOf(input)}; write one of ${words.join(', ')}`;
  return z.enum(words, { error }).meta({ title: words.join('|') });
}

/** Returns the type of a list. `least` is the smallest number of items. */
export function list<Value>(item: z.ZodType<Value>, least: 0 | 1) {
  const error = ({ input }: Issue) => `is ${shapeOf(input)}; write a list, for example ["one", "two"]`;
  return z
    .array(item, { error })
    .min(least, 'is an empty list; name at least one, or leave it out for all')
    .meta({ title: `${item.meta()?.title},…` });
}

/** Returns the type of the path of a file or a folder, which need not exist. */
export function path(names: 'file' | 'folder') {
  return textRead(names, text(`the path of a ${names}, in quotes`), (written, refuse) => {
    const fault = faultOfPath(written, names);
    if (fault !== null) return refuse(`is ${quoted(written)}, ${fault}`);
    return new Relative((directory) => resolve(directory, written));
  });
}

/** The path of the file of a key. Text without a slash is never shown: it may be the key itself. */
export const keyFile = textRead('file', plainText('names no file'), (written, refuse) => {
  const fault = faultOfPath(written, 'file');
  if (fault === null) return new Relative((directory) => resolve(directory, written));
  return refuse(isSurelyAPath(written) ? `is ${quoted(written)}, ${fault}` : 'names no file');
});

export function isSurelyAPath(written: string): boolean {
  return /[/\\]/.test(written);
}

function faultOfPath(written: string, names: 'file' | 'folder'): string | null {
  if (written.includes('\0')) return 'which no path can contain';
  if (written.startsWith('~')) return 'and ~ has no meaning here; write the whole path';
  return names === 'file' && /[/\\]$/.test(written) ? 'which is a folder; name the file in it' : null;
}

/** Returns the type of a pattern of dataset ids, `*` for any text. */
function glob(advice: string) {
  return textRead('glob', text(advice), (written, refuse) => {
    if (!written.startsWith('!')) return written;
    return refuse(`is ${quoted(written)}; name datasets to leave out in datasets.exclude, without the !`);
  });
}

/** An item of a list of patterns. */
export const datasetGlob = glob('it in quotes');

/** A pattern that stands alone. */
export const oneGlob = glob('one pattern of ids in quotes');

const OFF = 'off';
const ROWS_ADVICE = 'write off, a number, a share such as 25%, or a list of both';

/** A whole number of rows, or a share of the rows before. */
const ROWS = /^\d{1,12}$/;
const SHARE = /^(\d{1,3}(?:\.\d{1,6})?)\s*%$/;

interface RowLimit {
  readonly rows: number | null;
  readonly share: number | null;
}

/** Null: off. */
export const rowLimit = z
  .preprocess(partsOf, z.array(z.unknown()))
  .transform((parts, context): RowLimit | null => {
    const refuse = (fault: string) => {
      context.addIssue(`${fault}; ${ROWS_ADVICE}`);
      return z.NEVER;
    };
    const texts = parts.map((part) => (typeof part === 'number' ? String(part) : part));
    if (texts.length === 1 && texts[0] === OFF) return null;
    let limit: RowLimit = { rows: null, share: null };
    for (const part of texts) {
      if (typeof part !== 'string') return refuse(`is ${shapeOf(part)}`);
      const percent = Number(SHARE.exec(part)?.[1] ?? Number.NaN);
      const next = ROWS.test(part)
        ? { ...limit, rows: Number(part) }
        : percent <= 100
          ? { ...limit, share: percent / 100 }
          : null;
      if (next === null) return refuse(`is ${quoted(part)}, which is no number of rows and no share`);
      limit = next;
    }
    const given = [limit.rows, limit.share].filter((number) => number !== null);
    if (given.length === 0 || given.length < texts.length)
      return refuse('must name one number, one share, or one of both');
    return limit;
  })
  .meta({ title: 'rows', type: ['number', 'string', 'array'] });

/** A text on a command line names both with a comma between them. */
function partsOf(input: unknown): unknown {
  if (typeof input === 'string') return input.split(',').map((part) => part.trim());
  return Array.isArray(input)
    ? input.map((part) => (typeof part === 'string' ? part.trim() : part))
    : [input];
}

const COMMAND_ADVICE = 'write a list of words, for example ["./refresh.sh", "--all"]';

/**
 * A list of words in the file, or a text of words separated by white space. A program that is a path starts at the same
 * directory as other paths; a program without a slash is looked up in PATH.
 */
export const command = z
  .preprocess(
    (input) => (typeof input === 'string' ? input.trim().split(/\s+/) : input),
    z.array(
      z.string({ error: 'is not text; write it in quotes' }).refine((word) => !word.includes('\0'), {
        error: ({ input }) => `is ${quoted(String(input))}, which no command can contain`,
      }),
      { error: `is not a command; ${COMMAND_ADVICE}` },
    ),
  )
  .transform(([program = '', ...rest], context) => {
    if (program.trim() !== '' && !program.startsWith('~')) {
      return new Relative((directory): readonly string[] => [
        program.includes('/') ? resolve(directory, program) : program,
        ...rest,
      ]);
    }
    const home = `is ${quoted(program)}, and ~ has no meaning here; write the whole path`;
    context.addIssue(program.startsWith('~') ? home : `names no program; ${COMMAND_ADVICE}`);
    return z.NEVER;
  })
  .meta({ title: 'words', type: ['array', 'string'] });

const MAX_SECRET_CHARACTERS = 4_096;
const NOT_A_KEY = 'contains white space, a control character or a letter outside ASCII, which no key does';
const TOO_LONG = `is longer than ${MAX_SECRET_CHARACTERS} characters; is it the key alone?`;

/** A key that fits into a header: visible ASCII without white space. */
export const secret = plainText('is not text; put it in quotes')
  .max(MAX_SECRET_CHARACTERS, { error: TOO_LONG, abort: true })
  .regex(/^[\x21-\x7e]+$/, { error: NOT_A_KEY })
  .transform((key) => new Secret(key))
  .meta({ title: 'key' });

const NOT_AN_ADDRESS = 'is not an http or https address; it is not shown, for it may be a secret';

/** An address of the operator's choice, on any network. Whoever knows it may post there, so it is a secret. */
export const secretUrl = plainText('is not text; put it in quotes')
  .max(MAX_SECRET_CHARACTERS, { error: TOO_LONG, abort: true })
  .regex(/^https?:\/\/[\x21-\x7e]+$/, { error: NOT_AN_ADDRESS, abort: true })
  .refine((written) => URL.canParse(written), { error: NOT_AN_ADDRESS })
  .refine((written) => (URL.parse(written)?.username ?? '') + (URL.parse(written)?.password ?? '') === '', {
    error: 'carries a user or password; leave them out',
  })
  .transform((address) => new Secret(address))
  .meta({ title: 'url' });

const NOT_A_DATABASE =
  'is not the address of a PostgreSQL database; write postgres://user:password@host/database';

/** The words of the driver. It would take any other one for `verify-full`. */
const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];
const NO_SSL_MODE = `has another sslmode than ${SSL_MODES.slice(0, -1).join(', ')} or no-verify; write sslmode=verify-full`;
const NOT_ENCODED =
  'has a character whose code (%…) is not of UTF-8; encode user and password in UTF-8, and write % as %25';

/** The address of a database, with its password. No message shows it. */
export const databaseUrl = plainText('is not text; put it in quotes')
  .max(MAX_SECRET_CHARACTERS, { error: TOO_LONG, abort: true })
  .regex(/^[\x21-\x7e]+$/, { error: NOT_A_DATABASE, abort: true })
  .refine((url) => /^postgres(?:ql)?:$/.test(databaseAddress(url)?.protocol ?? ''), {
    error: NOT_A_DATABASE,
    abort: true,
  })
  .refine((url) => isDecodable(url), { error: NOT_ENCODED, abort: true })
  .refine((url) => SSL_MODES.includes(databaseAddress(url)?.searchParams.get('sslmode') ?? 'disable'), {
    error: NO_SSL_MODE,
  })
  .transform((url) => new Secret(url))
  .meta({ title: 'url' });

/** The service's address: https, or http for an address of this machine. Without a trailing slash. */
export const baseUrl = textRead(
  'url',
  text('an address such as https://feed.example.com'),
  (written, refuse) => {
    const url = URL.parse(written);
    const refused = (fault: string) => refuse(`is ${withoutCredentials(written)}, ${fault}`);
    if (url === null) return refused('which is not an address; write for example https://feed.example.com');
    const fault = faultOfAddress(url) ?? faultOfBaseUrl(url);
    if (fault !== null) return refused(fault);
    return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
  },
);

function faultOfBaseUrl(url: URL): string | null {
  if (/\/v1\/*$/.test(url.pathname)) return 'which ends in /v1; leave that out, it is part of every path';
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url.hostname))) {
    return 'which is not https; http is for a loopback address only';
  }
  return null;
}

/** A scheme, host and port: `https://files.example.com`. */
export const origin = textRead(
  'origin',
  text('an origin such as https://files.example.com'),
  (written, refuse) => {
    const url = URL.parse(written);
    const isWeb = url !== null && ['https:', 'http:'].includes(url.protocol);
    const refused = (fault: string) => refuse(`is ${withoutCredentials(written)}, ${fault}`);
    if (!isWeb) return refused('which is not an origin; write for example https://files.example.com');
    const fault = faultOfAddress(url);
    if (fault !== null) return refused(fault);
    return url.pathname === '/' ? url.origin : refused('which has a path; write the origin alone');
  },
);

/**
 * Returns whether the host is a loopback address: true for 127.0.0.0/8, also mapped into IPv6, ::1 and localhost. A URL has brackets around
 * an IPv6 address.
 */
export function isLoopback(hostname: string): boolean {
  const address = hostname.replace(/^\[|\]$/g, '');
  return (
    address === 'localhost' || (ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback')
  );
}

function faultOfAddress(url: URL): string | null {
  if (url.username !== '' || url.password !== '') return 'which carries a user or password; leave them out';
  return /[?#]/.test(url.href) ? 'which has a query or fragment; leave it out' : null;
}

function withoutCredentials(written: string): string {
  return quoted(written.replace(/^(\w+:\/\/)?.*@/s, '$1…@').replace(/[?#].*$/s, (rest) => `${rest[0]}…`));
}

/** One leading slash, so that the path stays on the service's origin, and no query. */
const PATH_TEMPLATE = /^\/(?![/\\])[\w.~!$&'()*+,;=:@%/{}-]*$/;
const MANIFEST_PLACES = ['{subscriptionId}', '{datasetId}'];

/** The path of the manifest, with a place for one id. */
export const manifestPath = textRead(
  'path',
  text('a path such as /v1/subscriptions/{subscriptionId}/manifest'),
  (written, refuse) => {
    const refused = (fault: string) => refuse(`is ${quoted(written)}, ${fault}`);
    if (!written.startsWith('/')) return refused('which does not start with /');
    const places = written.match(/\{[^}]*\}/g) ?? [];
    if (places.length !== 1 || !MANIFEST_PLACES.includes(places[0] ?? '')) {
      return refused('which must contain either {subscriptionId} or {datasetId}, once');
    }
    if (PATH_TEMPLATE.test(written)) return written;
    return refused('which is not a path; write it without host, query and white space');
  },
);

/** These two already have a meaning on every list. */
const PAGING_PARAMETERS = ['limit', 'cursor'];

/** The name of a query parameter. */
export const parameterName = textRead('name', text('a name such as since'), (written, refuse) => {
  if (!/^[\w.[\]$-]{1,64}$/.test(written)) {
    return refuse(`is ${quoted(written)}, which is not a parameter's name`);
  }
  if (PAGING_PARAMETERS.includes(written))
    return refuse(`is ${quoted(written)}, which is reserved for paging`);
  return written;
});

/** An id or a name. */
export const identifier = text('it in quotes').meta({ title: 'id' });

/** A cron expression, with seconds as an optional sixth field in front. */
export const schedule = textRead('cron', text('a cron expression such as "0 6 * * *"'), (written, refuse) => {
  if (occurs(written)) return written;
  return refuse(`is ${quoted(written)}, which never occurs; write for example "0 6 * * *"`);
});

/** A schedule that never occurs, such as the 30th of February, would never update the mirror. */
function occurs(written: string): boolean {
  try {
    return new Cron(written, { paused: true }).nextRun() !== null;
  } catch {
    return false;
  }
}

const LARGEST_PORT = 65_535;

/** `127.0.0.1:9464`, `[::1]:9464`, `localhost:0`. */
const ADDRESS = /^(?:\[([\da-f:.]+)\]|([a-z\d](?:[a-z\d.-]{0,251}[a-z\d])?)):(\d{1,5})$/i;

type ListenAddress =
  | {
      /** A name or an address, an IPv6 address without brackets. */
      readonly host: string;
      /** 0: any free port. */
      readonly port: number;
    }
  /** A unix socket. */
  | { readonly path: string };

const UNIX = 'unix:';

/** Null: off. */
export const listenAddress = textRead(
  'host:port|unix:PATH',
  text('an address such as 127.0.0.1:9464, unix:PATH, or off'),
  (written, refuse): Relative<ListenAddress | null> => {
    if (written === OFF) return new Relative(() => null);
    if (written.startsWith(UNIX)) {
      const path = written.slice(UNIX.length);
      const fault = path === '' ? 'which names no socket' : faultOfPath(path, 'file');
      return fault === null
        ? new Relative((directory) => ({ path: resolve(directory, path) }))
        : refuse(`is ${quoted(written)}, ${fault}`);
    }
    const [, address, name, digits] = ADDRESS.exec(written) ?? [];
    const host = address ?? name;
    const isHost = host !== undefined && (address === undefined || ipaddr.IPv6.isValid(address));
    if (isHost && Number(digits) <= LARGEST_PORT) {
      return new Relative(() => ({ host, port: Number(digits) }));
    }
    return refuse(
      `is ${quoted(written)}, which is not a host and a port; write for example 127.0.0.1:9464, unix:PATH, or off`,
    );
  },
);
