/** Decodes the records of the service (the interface, Resources), a page at a time. */

import { z } from 'zod';
import { isWebhookSecret, Secret } from '../../lib/secret.ts';
import { relayed, shown } from '../../lib/text.ts';
import {
  EVENT_TYPES,
  type EventId,
  type FeedEvent,
  parseEventId,
  type UnreadableEvent,
} from '../../model/event.ts';
import type { ManifestEntry, ManifestFile } from '../../model/manifest.ts';
import {
  COLUMN_TYPES,
  type Column,
  type Schema,
  type SchemaChange,
  type Subscription,
  type Version,
} from '../../model/records.ts';
import type { EventPage } from '../feed.ts';
import type { AddedWebhook, County, Watch } from '../operator.ts';
import {
  count,
  decode,
  id,
  list,
  nextCursor,
  optional,
  optionalList,
  pathText,
  shownOnly,
  timestamp,
  violation,
  words,
} from './fields.ts';

export interface ListPage<Item> {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
}

/** `field` is the name of the list on the wire. */
function pageOf<Item extends z.ZodType>(field: string, item: Item) {
  return z.object({ [field]: list(item), nextCursor }).transform((page): ListPage<z.output<Item>> => {
    // The computed name hides the types of both fields from the compiler.
    return { items: page[field] as z.output<Item>[], nextCursor: page['nextCursor'] as string | null };
  });
}

/** An unreadable event id becomes null, and readers then take the longer, safe way. */
const eventId = shownOnly(z.string()).transform((text) => (text === null ? null : parseEventId(text)));

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
  publishedAt: shownOnly(timestamp),
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

const subscriptionsPage = pageOf('subscriptions', subscription);
const versionsPage = pageOf('versions', version);
const schemasPage = pageOf('schemas', schema);

/** Decodes a list of subscriptions. @throws ContractViolationError */
export function decodeSubscriptions(json: unknown, title: string): ListPage<Subscription> {
  return decode(subscriptionsPage, json, title);
}

/** Decodes a list of versions. @throws ContractViolationError, also for a version of another dataset. */
export function decodeVersions(json: unknown, datasetId: string, title: string): ListPage<Version> {
  const page = decode(versionsPage, json, title);
  const stranger = page.items.findIndex((item) => item.datasetId !== datasetId);
  if (stranger !== -1) throw violation(title, `versions[${stranger}].datasetId`, 'names another dataset');
  return page;
}

/** Decodes a list of schemas. @throws ContractViolationError, also for a schema of another dataset. */
export function decodeSchemas(json: unknown, datasetId: string, title: string): ListPage<Schema> {
  const page = decode(schemasPage, json, title);
  const stranger = page.items.findIndex((item) => item.datasetId !== null && item.datasetId !== datasetId);
  if (stranger !== -1) throw violation(title, `schemas[${stranger}].datasetId`, 'names another dataset');
  return { ...page, items: page.items.map((item) => ({ ...item, datasetId })) };
}

const MAX_URL_CHARACTERS = 16_000;

const file = z.object({
  url: z.string().min(1).max(MAX_URL_CHARACTERS),
  bytes: optional(count),
  rowCount: optional(count),
  sha256: optional(z.string().regex(/^[\da-f]{64}$/i, { error: 'is not the hex of a SHA-256' })).transform(
    (digest) => digest?.toLowerCase() ?? null,
  ),
}) satisfies z.ZodType<ManifestFile>;

const entry = z.object({
  datasetId: id,
  version: count,
  schemaVersion: optional(id),
  rowCount: optional(count),
  files: list(file),
}) satisfies z.ZodType<ManifestEntry>;

const manifestPage = z.object({
  subscriptionId: optional(id),
  lastEventId: eventId,
  datasets: list(entry),
  nextCursor,
});

export interface ManifestPage {
  readonly lastEventId: EventId | null;
  readonly datasets: readonly ManifestEntry[];
  readonly nextCursor: string | null;
}

/** Decodes a page of a manifest. @throws ContractViolationError, also for the manifest of another subscription. */
export function decodeManifestPage(json: unknown, subscriptionId: string, title: string): ManifestPage {
  const page = decode(manifestPage, json, title);
  if (page.subscriptionId !== null && page.subscriptionId !== subscriptionId) {
    throw violation(title, 'subscriptionId', 'names another subscription');
  }
  return page;
}

/** Decodes a manifest entry. @throws ContractViolationError, also for the entry of another dataset. */
export function decodeManifestEntry(json: unknown, datasetId: string, title: string): ManifestEntry {
  const decoded = decode(entry, json, title);
  if (decoded.datasetId !== datasetId) throw violation(title, 'datasetId', 'names another dataset');
  return decoded;
}

const eventsPage = z.object({ events: list(z.unknown()), hasMore: z.boolean() });

/** Beyond id, type and dataset an event is only a hint, so invalid fields are dropped. */
const event = z.object({
  id: z.string().transform((text, context) => {
    const eventId = parseEventId(text);
    if (eventId !== null) return eventId;
    context.addIssue({ code: 'custom', message: 'is not of the form evt_<sequence>' });
    return z.NEVER;
  }),
  type: z.string(),
  createdAt: shownOnly(timestamp),
  data: z.object({
    datasetId: id,
    version: shownOnly(count),
    previousVersion: shownOnly(count),
    schemaVersion: shownOnly(id),
    counts: shownOnly(z.object({ added: count, changed: count, removed: count })),
    reason: words,
  }),
});

/** The readable fields of an invalid event. */
const remnant = z.object({
  id: shownOnly(z.string()),
  data: z.object({ datasetId: shownOnly(id) }).catch({ datasetId: null }),
});

/** Decodes a page of events. @throws ContractViolationError when the page itself is invalid. */
export function decodeEventPage(json: unknown, title: string): Omit<EventPage, 'readAt'> {
  const page = decode(eventsPage, json, title);
  return { events: page.events.map(decodeEvent), hasMore: page.hasMore };
}

export function decodeEvent(json: unknown): FeedEvent | UnreadableEvent {
  const result = event.safeParse(json);
  if (!result.success) {
    const [issue] = result.error.issues;
    return unreadable(json, `${pathText(issue?.path ?? [])}: ${issue?.message ?? 'does not fit'}`);
  }
  const type = EVENT_TYPES.find((known) => known === result.data.type);
  if (type === undefined) return unreadable(json, `type: "${shown(result.data.type)}" is not a known type`);
  const { id: eventId, createdAt, data } = result.data;
  return { kind: 'event', id: eventId, type, createdAt, ...data };
}

function unreadable(json: unknown, problem: string): UnreadableEvent {
  const result = remnant.safeParse(json);
  if (!result.success) return { kind: 'unreadable', id: null, datasetId: null, problem };
  const { id: text, data } = result.data;
  return {
    kind: 'unreadable',
    id: text === null ? null : parseEventId(text),
    datasetId: data.datasetId,
    problem,
  };
}

const changesPage = z.object({
  datasetId: optional(id),
  version: optional(count),
  previousVersion: optional(count),
  schemaVersion: optional(id),
  recorded: optional(z.boolean()),
  changes: optional(z.array(z.unknown())),
  nextCursor,
});

export interface ChangesPage {
  /** False when the service says that it did not record the changes of this version. */
  readonly recorded: boolean;
  readonly previousVersion: number | null;
  readonly schemaVersion: string | null;
  readonly nextCursor: string | null;
}

/** Decodes a page of changes. @throws ContractViolationError, also for a page of other changes than requested. */
export function decodeChangesPage(
  json: unknown,
  asked: { readonly datasetId: string; readonly version: number },
  title: string,
): ChangesPage {
  const page = decode(changesPage, json, title);
  if (page.datasetId !== null && page.datasetId !== asked.datasetId) {
    throw violation(title, 'datasetId', 'names another dataset');
  }
  if (page.version !== null && page.version !== asked.version) {
    throw violation(title, 'version', 'names another version');
  }
  const recorded = page.recorded !== false;
  if (recorded && page.changes === null) throw violation(title, 'changes', 'is missing');
  return {
    recorded,
    previousVersion: page.previousVersion,
    schemaVersion: page.schemaVersion,
    nextCursor: page.nextCursor,
  };
}

const county = z
  .looseObject({ id, name: shownOnly(z.string()), state: shownOnly(z.string()) })
  .transform(({ id: countyId, name, state, ...further }): County => {
    return { id: countyId, name, state, further: new Map(Object.entries(further)) };
  });

const watch = z.object({ datasetId: id, createdAt: shownOnly(timestamp) }) satisfies z.ZodType<Watch>;

const countiesPage = pageOf('counties', county);
const watchesPage = pageOf('watches', watch);

const addedWebhook = z.object({
  id,
  url: shownOnly(z.string()),
  secret: z
    .string()
    .refine(isWebhookSecret, { error: 'is not whsec_ and base64' })
    .transform((text) => new Secret(text)),
});

/** Decodes a list of counties. @throws ContractViolationError */
export function decodeCounties(json: unknown, title: string): ListPage<County> {
  return decode(countiesPage, json, title);
}

/** Decodes a list of watches. @throws ContractViolationError */
export function decodeWatches(json: unknown, title: string): ListPage<Watch> {
  return decode(watchesPage, json, title);
}

/**
 * Decodes the webhook that was added. `asked` is the address that was sent. @throws ContractViolationError without any part of the secret.
 */
export function decodeAddedWebhook(json: unknown, asked: string, title: string): AddedWebhook {
  const { url, ...added } = decode(addedWebhook, json, title);
  return { ...added, url: url ?? asked };
}

export interface ErrorBody {
  readonly code: string;
  /** Safe to show: one line, no control characters. */
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

/** Returns null when the body lacks the Error shape. `strike` masks secrets in a text. */
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

/** An operator may open the shown address, so only web addresses pass. */
function isWebAddress(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}
