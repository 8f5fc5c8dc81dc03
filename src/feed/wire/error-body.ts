/** The Error shape of a refusal (the service's interface, Errors). */

import { z } from 'zod';
import { relayed } from '../shown.ts';

export interface ErrorBody {
  readonly code: string;
  /** Fit to be shown: one line, no control characters. */
  readonly message: string;
  readonly links: ReadonlyMap<string, string>;
}

const MAX_LINKS = 20;

const errorBody = z.object({
  error: z.object({
    code: z.string().max(200),
    message: z.string(),
    links: z.record(z.string(), z.unknown()).nullish().catch(null),
  }),
});

/** Null where the body has not the shape. `strike` takes secrets out of a text. */
export function decodeErrorBody(json: unknown, strike: (text: string) => string): ErrorBody | null {
  const result = errorBody.safeParse(json);
  if (!result.success) return null;
  const clean = (text: string): string => relayed(strike(text));
  const { code, message, links } = result.data.error;
  const usable = Object.entries(links ?? {})
    .flatMap(([name, target]) => (typeof target === 'string' ? [[clean(name), clean(target)] as const] : []))
    .filter(([, target]) => isWebAddress(target));
  return { code: clean(code), message: clean(message), links: new Map(usable.slice(0, MAX_LINKS)) };
}

/** A person may follow it as it is shown, so it leads to the web and nowhere else. */
function isWebAddress(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}
