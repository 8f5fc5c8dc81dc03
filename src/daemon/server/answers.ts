/** The responses of the status server, as values. A response repeats nothing of its request. */

export interface Answer {
  readonly status: number;
  /** Null: the response has no body. */
  readonly contentType: string | null;
  readonly body: string;
  /** Additional headers. */
  readonly headers: Readonly<Record<string, string>>;
}

export const OK = 200;
export const UNAVAILABLE = 503;

export function jsonAnswer(status: number, value: unknown): Answer {
  const body = `${JSON.stringify(value, null, 2)}\n`;
  return { status, contentType: 'application/json; charset=utf-8', body, headers: {} };
}

export function metricsAnswer(body: string, contentType: string): Answer {
  return { status: OK, contentType, body, headers: {} };
}

export const NOT_FOUND = plainAnswer(404, 'Not found.');
export const BAD_REQUEST = plainAnswer(
  400,
  'This is no webhook: an id, a time, a signature and text are needed.',
);
export const UNAUTHORIZED = plainAnswer(401, 'The signature or its time is not accepted.');
export const TOO_LARGE = plainAnswer(413, 'The body is too large.');
export const MISDIRECTED = plainAnswer(421, 'This machine is not called so.');
export const FAILED = plainAnswer(500, 'This could not be answered. The log says why.');
export const ACCEPTED: Answer = { status: 204, contentType: null, body: '', headers: {} };

/** `allow`: the allowed methods. */
export function notAllowed(allow: string): Answer {
  return { ...plainAnswer(405, 'This method is not allowed here.'), headers: { Allow: allow } };
}

function plainAnswer(status: number, sentence: string): Answer {
  return { status, contentType: 'text/plain; charset=utf-8', body: `${sentence}\n`, headers: {} };
}
