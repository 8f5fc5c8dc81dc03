/**
 * Kinds of fields, and the one way from JSON to a record.
 *
 * What is needed must be there and fit. What may be missing may also be null; where it decides or proves something it
 * must fit, where it is only shown it becomes null instead. Unknown fields pass unseen.
 */

import { z } from 'zod';
import { ContractViolationError } from '../../model/errors.ts';

/** Ids of this length still fit into a path; longer ones are a mistake. */
const MAX_ID_CHARACTERS = 10_000;
const MAX_CURSOR_CHARACTERS = 16_000;

/** NUL ends a name in databases and file systems, and a lone surrogate cannot be written in a URL. */
function isUsable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

export const id = z
  .string()
  .min(1)
  .max(MAX_ID_CHARACTERS)
  .refine(isUsable, { error: 'holds NUL or half a character' });

/** Not negative, and exact in a JavaScript number. */
export const count = z.int().nonnegative();

/** RFC 3339 with an offset. */
export const timestamp = z.iso.datetime({ offset: true }).transform((text) => new Date(text));

/** May be missing or null; must fit where it is there. */
export function optional<Schema extends z.ZodType>(schema: Schema) {
  return schema.nullish().transform((value) => value ?? null);
}

/** May be missing, null or wrong: it is only shown. */
export function shownOnly<Schema extends z.ZodType>(schema: Schema) {
  return optional(schema).catch(null);
}

/** Words of the service's own that are stored with what they explain; null where no database would keep them as they are. */
export const words = shownOnly(z.string().refine(isUsable));

/** Far above any page; of each item that does not fit a trouble is noted, which takes more memory than the item. */
const MAX_LIST_ITEMS = 100_000;

/** Of so many items that no trouble with them can fill the memory. */
export function list<Schema extends z.ZodType>(item: Schema) {
  return z.array(z.unknown()).max(MAX_LIST_ITEMS).pipe(z.array(item));
}

/** A list that may be missing or null. */
export function optionalList<Schema extends z.ZodType>(item: Schema) {
  return list(item)
    .nullish()
    .transform((items) => items ?? []);
}

/** Null on the last page; services that write an empty text mean the same. It is sent back in a URL. */
export const nextCursor = z
  .string()
  .max(MAX_CURSOR_CHARACTERS)
  .refine((text) => text.isWellFormed(), { error: 'holds half a character' })
  .nullish()
  .transform((cursor) => (cursor ? cursor : null));

/**
 * `title` is what is being done, as the end of "Could not …".
 * @throws ContractViolationError with the path of the first field that does not fit, and never with its content.
 */
export function decode<Schema extends z.ZodType>(
  schema: Schema,
  json: unknown,
  title: string,
): z.output<Schema> {
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw violation(title, pathText(issue?.path ?? []), issue?.message ?? 'does not fit');
}

/** `trouble` is what is wrong with the field: `is missing`. */
export function violation(title: string, path: string, fault: string): ContractViolationError {
  return new ContractViolationError(
    `Could not ${title}: the answer does not fit the interface at ${path}: ${fault}.`,
    path,
    { hint: 'It is asked for again at the next catch-up. If it stays so, tell the service.' },
  );
}

/** Where a violation concerns the whole answer and no field of it. */
export const WHOLE_BODY = '(the whole body)';

/** `versions[3].version`. */
export function pathText(path: readonly PropertyKey[]): string {
  if (path.length === 0) return WHOLE_BODY;
  return path
    .map((step, index) =>
      typeof step === 'number' ? `[${step}]` : index === 0 ? String(step) : `.${String(step)}`,
    )
    .join('');
}
