/** The responses of the status server, as values. A response repeats nothing of its request. */

import { createHash } from 'node:crypto';

export interface Answer {
  readonly status: number;
  /** Null: the response has no body. */
  readonly contentType: string | null;
  /** Serialized once, however many requests it is sent to. */
  readonly body: Buffer;
  /** Additional headers. */
  readonly headers: Readonly<Record<string, string>>;
}

export const OK = 200;
export const UNAVAILABLE = 503;

export function jsonAnswer(status: number, value: unknown): Answer {
  const body = Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
  return { status, contentType: 'application/json; charset=utf-8', body, headers: {} };
}

/** Returns an answer without white space, for programs that ask again and again. */
export function compactAnswer(value: unknown): Answer {
  return { ...jsonAnswer(OK, null), body: Buffer.from(JSON.stringify(value)) };
}

export function metricsAnswer(body: string, contentType: string): Answer {
  return { status: OK, contentType, body: Buffer.from(body), headers: {} };
}

export function withETag(answer: Answer): Answer {
  const digest = createHash('sha256').update(answer.body).digest('base64url');
  return { ...answer, headers: { ...answer.headers, ETag: `"${digest}"` } };
}

/** Returns 304 where the client has the body already. */
export function unlessKnown(answer: Answer, ifNoneMatch: string | undefined): Answer {
  const tag = answer.headers['ETag'];
  const isKnown = answer.status === OK && tag !== undefined && ifNoneMatch === tag;
  return isKnown ? { status: 304, contentType: null, body: NOTHING, headers: { ETag: tag } } : answer;
}

const NOTHING = Buffer.alloc(0);

export const NOT_FOUND = plainAnswer(404, 'Not found.');
export const BAD_REQUEST = plainAnswer(
  400,
  'This is no webhook: an id, a time, a signature and text are needed.',
);
export const UNAUTHORIZED = plainAnswer(401, 'The signature or its time is not accepted.');
export const TOO_LARGE = plainAnswer(413, 'The body is too large.');
export const MISDIRECTED = plainAnswer(421, 'The request names another host than this machine.');
export const FAILED = plainAnswer(500, 'This could not be answered. The log says why.');
export const ACCEPTED: Answer = { status: 204, contentType: null, body: NOTHING, headers: {} };

/** A browser asks its user for a name and a password then: any name, and the token. */
export const TOKEN_NEEDED: Answer = {
  ...plainAnswer(401, 'This needs the token of status.tokenFile.'),
  headers: { 'WWW-Authenticate': 'Basic realm="feed-sync", Bearer' },
};

/** `why` names the instance that works. */
export function standingByAnswer(why: string): Answer {
  return plainAnswer(UNAVAILABLE, `This instance stands by. ${why}`);
}

/** Returns the answer to a method that is not allowed. `allow`: the allowed methods. */
export function notAllowed(allow: string): Answer {
  return { ...plainAnswer(405, 'This method is not allowed here.'), headers: { Allow: allow } };
}

function plainAnswer(status: number, sentence: string): Answer {
  const body = Buffer.from(`${sentence}\n`);
  return { status, contentType: 'text/plain; charset=utf-8', body, headers: {} };
}
