/**
 * The kinds of fields, and the one way from JSON to a record.
 *
 * A required field must be present and valid. An optional field may also be null; an invalid value is refused when the field
 * decides or proves something, and becomes null when the field is only shown. Unknown fields are ignored.
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

/** Returns the schema of a field that may be missing, but must be valid when present. */
export function optional<Schema extends z.ZodType>(schema: Schema) {
  return schema.nullish().transform((value) => value ?? null);
}

/** Returns the schema of a field that may be missing, null or invalid, because it is only shown. */
export function shownOnly<Schema extends z.ZodType>(schema: Schema) {
  return optional(schema).catch(null);
}

/** The service's own words, stored with the fact that they explain; null when no database could store them unchanged. */
export const words = shownOnly(z.string().refine(isUsable));

/** Far above any page. The errors for invalid items take more memory than the items. */
const MAX_LIST_ITEMS = 100_000;

/** Limits the items, so that their errors cannot fill the memory. */
export function list<Schema extends z.ZodType>(item: Schema) {
  return z.array(z.unknown()).max(MAX_LIST_ITEMS).pipe(z.array(item));
}

/** Returns the schema of a list that may be missing or null. */
export function optionalList<Schema extends z.ZodType>(item: Schema) {
  return list(item)
    .nullish()
    .transform((items) => items ?? []);
}

/** Null on the last page; some services write an empty text instead. The cursor is sent back in a URL. */
export const nextCursor = z
  .string()
  .max(MAX_CURSOR_CHARACTERS)
  .refine((text) => text.isWellFormed(), { error: 'holds half a character' })
  .nullish()
  .transform((cursor) => (cursor ? cursor : null));

/**
 * Decodes a JSON value. `title` is the action, as the end of "Could not …".
 * @throws ContractViolationError with the path of the first invalid field, never with its content.
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

/** Returns the error of an invalid field. `fault` describes the field: `is missing`. */
export function violation(title: string, path: string, fault: string): ContractViolationError {
  return new ContractViolationError(
    `Could not ${title}: the answer does not fit the interface at ${path}: ${fault}.`,
    path,
    { hint: 'The next catch-up asks again. If the answer stays the same, report it to the service.' },
  );
}

/** The path of a violation that concerns the whole answer. */
export const WHOLE_BODY = '(the whole body)';

/** Returns a path such as `versions[3].version`. */
export function pathText(path: readonly PropertyKey[]): string {
  if (path.length === 0) return WHOLE_BODY;
  return path
    .map((step, index) =>
      typeof step === 'number' ? `[${step}]` : index === 0 ? String(step) : `.${String(step)}`,
    )
    .join('');
}
