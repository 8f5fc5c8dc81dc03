/**
 * Reads the lists of subscriptions, versions and schemas completely. Every command reads the list of subscriptions first: when
 * it is missing and was never seen before, the base URL is wrong.
 */

import { present } from '../lib/assert.ts';
import { formatCount } from '../lib/units.ts';
import { CommandRefusedError, ConfigurationError, RefusalError } from '../model/errors.ts';
import type { Schema, Version } from '../model/records.ts';
import { type Discovery, isGuess } from './discovery.ts';
import type { SubscriptionList, VersionList } from './feed.ts';
import type { Api } from './http/api.ts';
import { LIST_SUBSCRIPTIONS, listSchemas, listVersions, type Operation } from './http/operations.ts';
import { MAX_JSON_DEPTH } from './http/options.ts';
import { isAboutKey } from './http/refusal.ts';
import { violation } from './wire/fields.ts';
import { decodeSchemas, decodeSubscriptions, decodeVersions, type ListPage } from './wire/records.ts';
import { shown } from './wire/sanitize.ts';

const NOT_FOUND = 404;

const CHECK_PATH =
  'The path of service.baseUrl (FEED_SYNC_BASE_URL) may be wrong, so that something else answers: check it.';

type ReadSubscriptions = (signal: AbortSignal) => Promise<SubscriptionList>;

/**
 * GET /v1/subscriptions. `isKnownOrigin` is called only when the service answers 404 before the list was ever read.
 * @throws ConfigurationError when the list is missing and the origin is unknown.
 */
export function createSubscriptions(
  api: Api,
  baseUrl: string,
  isKnownOrigin: () => Promise<boolean>,
): ReadSubscriptions {
  let hasAnswered = false;
  const read = async (finalStatuses: readonly number[], signal: AbortSignal): Promise<SubscriptionList> => {
    const decode = decodeSubscriptions;
    const options = { finalStatuses, ifMissing: CHECK_PATH };
    const { items, readAt } = await readList(api, LIST_SUBSCRIPTIONS, decode, signal, options);
    hasAnswered = true;
    return { subscriptions: items, readAt };
  };
  return async (signal) => {
    if (hasAnswered) return read([], signal);
    try {
      return await read([NOT_FOUND], signal);
    } catch (error) {
      if (!(error instanceof RefusalError) || error.refusal.status !== NOT_FOUND) throw error;
      if (!(await isKnownOrigin())) throw wrongAddress(baseUrl, error);
    }
    // A known service may be away for a while, or refuse what the key asks for.
    return read([], signal);
  };
}

function wrongAddress(baseUrl: string, cause: RefusalError): ConfigurationError {
  const { status, message } = cause.refusal;
  return new ConfigurationError(
    `There is no list of subscriptions at ${shown(baseUrl)}: check service.baseUrl. The answer was ${status}: ${message}`,
    { hint: 'Correct the address, and run it again. Nothing was suspended.', cause },
  );
}

/** GET /v1/datasets/{datasetId}/schemas. */
export async function readSchemas(
  api: Api,
  datasetId: string,
  signal: AbortSignal,
): Promise<readonly Schema[]> {
  const decode = (json: unknown, title: string) => decodeSchemas(json, datasetId, title);
  return (await readList(api, listSchemas(datasetId), decode, signal)).items;
}

interface List<Item> {
  readonly items: readonly Item[];
  /** Service time of the first page. */
  readonly readAt: Date;
}

interface ListOptions {
  /** Refusals of the first page, whatever their body. */
  readonly finalStatuses?: readonly number[];
  /** As of a call. */
  readonly ifMissing?: string;
}

/** Reads all pages of a list that pages by cursor. */
export async function readList<Item>(
  api: Api,
  operation: Operation,
  decode: (json: unknown, title: string) => ListPage<Item>,
  signal: AbortSignal,
  { finalStatuses = [], ...options }: ListOptions = {},
): Promise<List<Item>> {
  const { title } = operation;
  const pages = await readPages({
    title,
    read: (cursor) =>
      api.call(
        {
          ...options,
          operation,
          query: { limit: LIST_LIMIT, cursor },
          maxDepth: MAX_JSON_DEPTH,
          finalStatuses: cursor === null ? finalStatuses : [],
          decode: ({ json, readAt }) => ({ ...decode(json, title), readAt }),
        },
        signal,
      ),
  });
  return { items: pages.flatMap(({ items }) => items), readAt: readAtOf(pages) };
}

/** The status of an answer to an unknown parameter. */
const UNKNOWN_PARAMETER_STATUS = 400;

/** GET /v1/datasets/{datasetId}/versions: newest first, in the service's order. */
export async function readVersions(
  api: Api,
  discovery: Discovery,
  datasetId: string,
  newerThan: number | null,
  signal: AbortSignal,
): Promise<VersionList> {
  const read = () => readNewer(api, discovery, datasetId, newerThan, signal);
  const parameter = discovery.contract().newerThanParameter;
  try {
    return await read();
  } catch (error) {
    const isRefused = error instanceof RefusalError && error.refusal.status === UNKNOWN_PARAMETER_STATUS;
    if (!isRefused || newerThan === null || parameter === null || !isGuess(parameter)) throw error;
  }
  const { newerThanParameter } = await discovery.discover(signal);
  if (newerThanParameter !== null && isGuess(newerThanParameter)) discovery.leaveOutNewerThanParameter();
  return read();
}

async function readNewer(
  api: Api,
  discovery: Discovery,
  datasetId: string,
  newerThan: number | null,
  signal: AbortSignal,
): Promise<VersionList> {
  const operation = listVersions(datasetId);
  const parameter = discovery.contract().newerThanParameter;
  // The interface gives the parameter a minimum of 0, and a smaller value would filter nothing anyway.
  const filter =
    parameter === null || newerThan === null || newerThan < 0 ? {} : { [parameter.value]: newerThan };
  const isNewer = ({ version }: Version): boolean => newerThan === null || version > newerThan;
  const pages = await readPages<ListPage<Version> & { readonly readAt: Date }>({
    title: operation.title,
    read: (cursor) =>
      api.call(
        {
          operation,
          query: { ...filter, limit: LIST_LIMIT, cursor },
          maxDepth: MAX_JSON_DEPTH,
          finalStatuses: parameter !== null && isGuess(parameter) ? [UNKNOWN_PARAMETER_STATUS] : [],
          decode: ({ json, readAt }) => ({ ...decodeVersions(json, datasetId, operation.title), readAt }),
        },
        signal,
      ),
    isEnough: ({ items }) => !items.every(isNewer),
  });
  const versions = pages.flatMap(({ items }) => items).filter(isNewer);
  return { versions, readAt: readAtOf(pages) };
}

/** The largest page that the interface allows. */
export const LIST_LIMIT = 200;
const MAX_PAGES = 10_000;
/** How often a list is read again from the start because a cursor was refused. */
const MAX_RESTARTS = 2;

interface PagedList<Page> {
  /** The action, as the end of "Could not …". */
  readonly title: string;
  /** A null `cursor` reads the first page. */
  readonly read: (cursor: string | null) => Promise<Page>;
  /** True when no further page is needed. */
  readonly isEnough?: (page: Page) => boolean;
}

/** The service time of a list is that of its first page. */
export function readAtOf(pages: readonly { readonly readAt: Date }[]): Date {
  return present(pages[0], 'a list has a first page').readAt;
}

/** Returns all pages in order. @throws ContractViolationError when the list makes no progress. */
export async function readPages<Page extends { readonly nextCursor: string | null }>(
  list: PagedList<Page>,
): Promise<readonly Page[]> {
  for (let restarts = 0; ; restarts += 1) {
    try {
      return await readOnce(list);
    } catch (error) {
      if (!(error instanceof ListMoved)) throw error;
      if (restarts >= MAX_RESTARTS) throw error.refusal;
    }
  }
}

type AnyRefusal = RefusalError | CommandRefusedError;

/** A page with a cursor was refused: the list may have changed meanwhile. */
class ListMoved extends Error {
  readonly refusal: AnyRefusal;

  constructor(refusal: AnyRefusal) {
    super('the list moved', { cause: refusal });
    this.refusal = refusal;
  }
}

async function readOnce<Page extends { readonly nextCursor: string | null }>(
  list: PagedList<Page>,
): Promise<readonly Page[]> {
  const pages: Page[] = [];
  const seen = new Set<string>();
  let cursor: string | null = null;
  do {
    if (pages.length >= MAX_PAGES) {
      throw violation(list.title, 'nextCursor', `goes on after ${formatCount(MAX_PAGES)} pages`);
    }
    const page: Page = await readPage(list, cursor);
    pages.push(page);
    if (list.isEnough?.(page) === true) return pages;
    cursor = page.nextCursor;
    if (cursor !== null && seen.has(cursor)) {
      throw violation(list.title, 'nextCursor', 'comes a second time, so the list makes no progress');
    }
    if (cursor !== null) seen.add(cursor);
  } while (cursor !== null);
  return pages;
}

async function readPage<Page>(list: PagedList<Page>, cursor: string | null): Promise<Page> {
  try {
    return await list.read(cursor);
  } catch (error) {
    const isRefusal = error instanceof RefusalError || error instanceof CommandRefusedError;
    throw cursor !== null && isRefusal && !isAboutKey(error) ? new ListMoved(error) : error;
  }
}
