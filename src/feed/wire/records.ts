/** Subscriptions, versions and schemas as the service writes them (the interface, Resources), a page at a time. */

import { z } from 'zod';
import { COLUMN_TYPES, type Column } from '../../model/column.ts';
import { parseEventId } from '../../model/event.ts';
import type { Schema, SchemaChange } from '../../model/schema.ts';
import type { Subscription } from '../../model/subscription.ts';
import type { Version } from '../../model/version.ts';
import {
  count,
  decode,
  id,
  list,
  moment,
  nextCursor,
  optional,
  optionalList,
  shownOnly,
  violation,
} from './fields.ts';

export interface ListPage<Item> {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
}

/** An event id that cannot be read is as good as none: readers then take the longer, safe way. */
export const eventId = shownOnly(z.string()).transform((text) => (text === null ? null : parseEventId(text)));

const subscription = z.object({
  id,
  name: shownOnly(z.string()),
  places: optionalList(z.string()).catch([]),
  topics: optionalList(z.string()).catch([]),
  datasetIds: optionalList(id),
  datasetCount: shownOnly(count),
  lastEventId: eventId,
}) satisfies z.ZodType<Subscription>;

const counts = z.object({ added: count, changed: count, removed: count });

const version = z.object({
  datasetId: id,
  version: count,
  previousVersion: optional(count),
  schemaVersion: optional(id),
  rowCount: optional(count),
  counts: optional(counts),
  resyncRequired: optional(z.boolean()).transform((required) => required ?? false),
  publishedAt: shownOnly(moment),
}) satisfies z.ZodType<Version>;

const column = z.object({
  name: id,
  type: z.string().transform((name) => COLUMN_TYPES.find((known) => known === name) ?? { unknown: name }),
  nullable: optional(z.boolean()).transform((nullable) => nullable ?? true),
  description: shownOnly(z.string()),
  sourceName: shownOnly(z.string()),
}) satisfies z.ZodType<Column>;

const schemaChange = z.object({
  kind: shownOnly(z.string()).transform((kind): SchemaChange['kind'] =>
    kind === 'additive' ? 'additive' : 'breaking',
  ),
  previousSchemaVersion: optional(id),
  keyColumnsChanged: optional(z.boolean()).transform((changed) => changed ?? false),
}) satisfies z.ZodType<SchemaChange>;

const schema = z.object({
  datasetId: optional(id),
  schemaVersion: id,
  firstVersion: optional(count),
  columns: list(column),
  keyColumns: list(id),
  envelopeColumns: optionalList(column),
  changeFromPrevious: optional(schemaChange),
});

const subscriptionsPage = z.object({ subscriptions: list(subscription), nextCursor });
const versionsPage = z.object({ versions: list(version), nextCursor });
const schemasPage = z.object({ schemas: list(schema), nextCursor });

/** @throws ContractViolationError */
export function decodeSubscriptions(json: unknown, title: string): ListPage<Subscription> {
  const page = decode(subscriptionsPage, json, title);
  return { items: page.subscriptions, nextCursor: page.nextCursor };
}

/** @throws ContractViolationError, also where a version is of another dataset than was asked for. */
export function decodeVersions(json: unknown, datasetId: string, title: string): ListPage<Version> {
  const page = decode(versionsPage, json, title);
  const stranger = page.versions.findIndex((item) => item.datasetId !== datasetId);
  if (stranger !== -1) throw violation(title, `versions[${stranger}].datasetId`, 'names another dataset');
  return { items: page.versions, nextCursor: page.nextCursor };
}

/** @throws ContractViolationError, also where a schema is of another dataset than was asked for. */
export function decodeSchemas(json: unknown, datasetId: string, title: string): ListPage<Schema> {
  const page = decode(schemasPage, json, title);
  const stranger = page.schemas.findIndex((item) => item.datasetId !== null && item.datasetId !== datasetId);
  if (stranger !== -1) throw violation(title, `schemas[${stranger}].datasetId`, 'names another dataset');
  return { items: page.schemas.map((item) => ({ ...item, datasetId })), nextCursor: page.nextCursor };
}
