/**
 * The types of settings that only the file can hold: lists and groups with patterns of dataset ids. Their messages are like those of
 * `value-types.ts`.
 */

import { z } from 'zod';
import { quoted } from '../lib/text.ts';
import { wildcardCount } from '../model/glob.ts';
import {
  isReservedSchema,
  MAX_SCHEMA_NAME_BYTES,
  placesIn,
  type SchemaRule,
  withoutPlaces,
} from '../model/naming.ts';
import { choice, datasetGlob, oneGlob, rowLimit, shapeOf, text, textRead } from './value-types.ts';

const RULE_ADVICE = 'write for example {datasets: ["us-*"], removedRows: 10%}';

/** The limits of some datasets; undefined where the rule does not name one. */
export const gateRule = z
  .strictObject(
    {
      datasets: z
        .array(datasetGlob, { error: 'is not a list of patterns of ids' })
        .min(1, 'is an empty list'),
      removedRows: rowLimit.optional(),
      changedRows: rowLimit.optional(),
      emptied: choice(['off', 'suspend']).optional(),
    },
    { error: ruleError(RULE_ADVICE) },
  )
  .meta({ title: 'rule' });

const UNION_ADVICE = 'write for example {parcels: "us-*-parcels"}';
const UNION_NAME = /^[a-z_][a-z0-9_]*$/;
const MAX_UNION_NAME = 63;

interface Union {
  readonly name: string;
  readonly globs: readonly string[];
}

/** Views by name, each with the patterns of its datasets. Not a record of zod, which drops a view called `__proto__`. */
export const unions = z
  .unknown()
  .transform((written, context): readonly Union[] => {
    if (typeof written !== 'object' || written === null || Array.isArray(written)) {
      context.addIssue(`is ${shapeOf(written)}; ${UNION_ADVICE}`);
      return z.NEVER;
    }
    const found = Object.entries(written).map(([name, value]) => {
      const read = z.array(datasetGlob).min(1).safeParse([value].flat());
      if (name.length > MAX_UNION_NAME || !UNION_NAME.test(name)) {
        const rule = `a name has lower-case letters, digits and _, at most ${MAX_UNION_NAME}, and no digit first`;
        context.addIssue(`has the view ${quoted(name)}; ${rule}`);
      }
      if (!read.success) {
        context.addIssue(`has no patterns of ids for the view ${quoted(name)}; ${UNION_ADVICE}`);
      }
      return { name, globs: read.data ?? [] };
    });
    return found.toSorted((left, right) => (left.name < right.name ? -1 : 1));
  })
  .meta({
    title: 'views',
    type: 'object',
    propertyNames: { pattern: UNION_NAME.source, maxLength: MAX_UNION_NAME },
    additionalProperties: { type: ['string', 'array'], items: { type: 'string' }, minItems: 1 },
  });

const SCHEMAS_ADVICE = 'write for example [{datasets: "us-*-*-*", schema: "us_{1}_{2}"}]';
const SCHEMA_ADVICE =
  'a name has lower-case letters, digits and _, and {1} for the text that the first * matched';

/** The name of a schema, with places for the texts that wildcards matched. */
const schemaName = textRead('name', text('a name in quotes'), (written, refuse) => {
  const literal = withoutPlaces(written);
  const refused = (fault: string) => refuse(`is ${quoted(written)}, ${fault}`);
  if (!/^[a-z0-9_]*$/.test(literal)) return refused(`which no schema is called; ${SCHEMA_ADVICE}`);
  if (/^[0-9]/.test(written)) return refused('which begins with a digit; write for example _ before it');
  if (literal.length > MAX_SCHEMA_NAME_BYTES) {
    return refused(`which is too long; a name has at most ${MAX_SCHEMA_NAME_BYTES} characters`);
  }
  if (written.startsWith('pg_')) return refused('and PostgreSQL keeps names that begin with pg_ for itself');
  return isReservedSchema(written) ? refused('which feed-sync or the database needs itself') : written;
});

const schemaRule = z
  .strictObject({ datasets: oneGlob, schema: schemaName }, { error: ruleError(SCHEMAS_ADVICE) })
  .superRefine(({ datasets, schema }, context) => {
    const count = wildcardCount(datasets);
    const missing = placesIn(schema).find((place) => place > count);
    if (missing === undefined) return;
    const message = `has {${missing}}, and ${quoted(datasets)} has ${count === 0 ? 'no *' : `only ${count} *`}`;
    context.addIssue({ code: 'custom', path: ['schema'], message });
  });

/** The schemas of tables: the first rule that matches counts. */
export const schemaRules: z.ZodType<readonly SchemaRule[]> = z
  .array(schemaRule, { error: ({ input }) => `is ${shapeOf(input)}; ${SCHEMAS_ADVICE}` })
  .min(1, `is an empty list; ${SCHEMAS_ADVICE}, or leave it out`)
  .meta({ title: 'rules' });

function ruleError(advice: string) {
  return (issue: z.core.$ZodRawIssue): string =>
    issue.code === 'unrecognized_keys'
      ? `has the unknown key ${quoted(String(issue.keys?.[0] ?? ''))}; ${advice}`
      : `is ${shapeOf(issue.input)}; ${advice}`;
}
