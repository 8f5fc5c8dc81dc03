/**
 * Reads the lists of subscriptions, versions and schemas completely. Every command reads the list of subscriptions first: when
 * it is missing and was never seen before, the base URL is wrong.
 */

import { present } from '../lib/assert.ts';
import { shown } from '../lib/text.ts';
import { formatBytes, formatCount } from '../lib/units.ts';
import {
  CommandRefusedError,
  ConfigurationError,
  type ContractViolationError,
  errorCodeOf,
  RefusalError,
} from '../model/errors.ts';
import type { Version } from '../model/records.ts';
import { type Discovery, isGuess } from './discovery.ts';
import type { SubscriptionList, VersionList } from './feed.ts';
import type { Answer, Api } from './http/api.ts';
import type { ConnectionOptions } from './http/options.ts';
import { isAboutKey } from './http/refusal.ts';
import { LIST_SUBSCRIPTIONS, listVersions, type Reading } from './operations.ts';
import { violation } from './wire/fields.ts';
import type { ListPage } from './wire/records.ts';

const NOT_FOUND = 404;

/**
 * Creates the reading of GET /v1/subscriptions. `isKnownOrigin` is called only when the service answers 404 before the list was ever read.
 * @throws ConfigurationError when the list is missing and the origin is unknown.
 */
export function createSubscriptions(api: Api, { baseUrl, isKnownOrigin }: ConnectionOptions) {
  let hasAnswered = false;
  const read = async (finalAtFirst: readonly number[], signal: AbortSignal): Promise<SubscriptionList> => {
    const { items, readAt } = await readList(api, LIST_SUBSCRIPTIONS, signal, { finalAtFirst });
    hasAnswered = true;
    return { subscriptions: items, readAt };
  };
  return async (signal: AbortSignal): Promise<SubscriptionList> => {
    if (hasAnswered) return read([], signal);
    try {
      return await read([NOT_FOUND], signal);
    } catch (error) {
      if (!(error instanceof RefusalError) || error.refusal.status !== NOT_FOUND) throw error;
      if ((await isKnownOrigin?.()) !== true) throw wrongAddress(baseUrl, error);
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

/** The status of an answer to an unknown parameter. */
const UNKNOWN_PARAMETER_STATUS = 400;

/** Reads GET /v1/datasets/{datasetId}/versions: newest first, in the service's order. */
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
  const parameter = discovery.contract().newerThanParameter;
  // The interface gives the parameter a minimum of 0, and a smaller value would filter nothing anyway.
  const query =
    parameter === null || newerThan === null || newerThan < 0 ? {} : { [parameter.value]: newerThan };
  const finalStatuses = parameter !== null && isGuess(parameter) ? [UNKNOWN_PARAMETER_STATUS] : [];
  const isNewer = ({ version }: Version): boolean => newerThan === null || version > newerThan;
  const operation = { ...listVersions(datasetId), query, finalStatuses };
  const { items, readAt } = await readList(api, operation, signal, {
    isEnough: ({ items }) => !items.every(isNewer),
  });
  return { versions: items.filter(isNewer), readAt };
}

/** Returns the items of all pages. */
export async function readList<Item>(
  api: Api,
  operation: Reading<ListPage<Item>>,
  signal: AbortSignal,
  rules: PageRules<ListPage<Item>> = {},
): Promise<{ readonly items: readonly Item[]; readonly readAt: Date }> {
  const { pages, readAt } = await readPages(api, operation, signal, rules);
  return { items: pages.flatMap(({ items }) => items), readAt };
}

/** The largest page that the interface allows. */
const LIST_LIMIT = 200;
const MAX_PAGES = 10_000;
/** How often a list is read again from the start because a cursor was refused. */
const MAX_RESTARTS = 2;

interface Page {
  readonly nextCursor: string | null;
}

interface PageRules<P> {
  /** The most items of a page; `LIST_LIMIT` by default. */
  readonly limit?: number;
  /** Statuses that are refusals of the first page even without the Error shape. */
  readonly finalAtFirst?: readonly number[];
  /** True when no further page is needed. */
  readonly isEnough?: (page: P) => boolean;
  /** Called for each page before the next one is read. A list that is read again begins at position 0 again. */
  readonly onPage?: (answer: Answer<P>, position: number) => Promise<void>;
}

interface Pages<P> {
  /** In order. */
  readonly pages: readonly P[];
  /** The service time of a list is that of its first page. */
  readonly readAt: Date;
}

/** Returns all pages in order. @throws ContractViolationError when the list makes no progress. */
export async function readPages<P extends Page>(
  api: Api,
  operation: Reading<P>,
  signal: AbortSignal,
  rules: PageRules<P> = {},
): Promise<Pages<P>> {
  for (let restarts = 0; ; restarts += 1) {
    try {
      return await readOnce(api, operation, signal, rules);
    } catch (error) {
      if (!(error instanceof ListMoved)) throw error;
      if (restarts >= MAX_RESTARTS) throw error.refusal;
    }
  }
}

/** A page with a cursor was refused: the list may have changed meanwhile. */
class ListMoved extends Error {
  readonly refusal: RefusalError | CommandRefusedError;

  constructor(refusal: RefusalError | CommandRefusedError) {
    super('the list moved', { cause: refusal });
    this.refusal = refusal;
  }
}

async function readOnce<P extends Page>(
  api: Api,
  operation: Reading<P>,
  signal: AbortSignal,
  { limit = LIST_LIMIT, finalAtFirst, isEnough, onPage }: PageRules<P>,
): Promise<Pages<P>> {
  const pages: P[] = [];
  let readAt: Date | null = null;
  const seen = new Set<string>();
  let cursor: string | null = null;
  const share = api.lists.begin();
  try {
    do {
      if (pages.length >= MAX_PAGES) throw goesOn(operation, `${formatCount(MAX_PAGES)} pages`);
      const query = { ...operation.query, limit, cursor };
      const isFirst = cursor === null && finalAtFirst !== undefined;
      await share.room(signal);
      const page = {
        ...operation,
        query,
        mostBytes: share.left(),
        ...(isFirst ? { finalStatuses: finalAtFirst } : {}),
      };
      const answer: Answer<P> = await readPage(api, page, signal);
      await onPage?.(answer, pages.length);
      pages.push(answer.value);
      // Items that are handed over page by page are not kept.
      const isKept = share.keep(onPage === undefined ? answer.bytes.length : 0);
      if (!isKept) throw goesOn(operation, formatBytes(api.lists.maxBytes));
      readAt ??= answer.readAt;
      if (isEnough?.(answer.value) === true) break;
      cursor = nextOf(answer.value, seen, operation);
    } while (cursor !== null);
  } finally {
    share.end();
  }
  return { pages, readAt: present(readAt, 'a list has a first page') };
}

/** `seen`: the cursors so far, to which this one is added. */
function nextOf(
  { nextCursor }: Page,
  seen: Set<string>,
  { title }: Pick<Reading<unknown>, 'title'>,
): string | null {
  if (nextCursor === null) return null;
  if (seen.has(nextCursor)) {
    throw violation(title, 'nextCursor', 'comes a second time, so the list makes no progress');
  }
  seen.add(nextCursor);
  return nextCursor;
}

function goesOn({ title }: Pick<Reading<unknown>, 'title'>, after: string): ContractViolationError {
  return violation(title, 'nextCursor', `goes on after ${after}`);
}

async function readPage<P>(api: Api, page: Reading<P>, signal: AbortSignal): Promise<Answer<P>> {
  try {
    return await api.call(page, signal);
  } catch (error) {
    const isRefusal = error instanceof RefusalError || error instanceof CommandRefusedError;
    const isLater = page.query?.['cursor'] !== null;
    const { mostBytes = Number.POSITIVE_INFINITY } = page;
    if (isLater && mostBytes < api.maxJsonBytes && errorCodeOf(error) === 'response_too_large')
      throw goesOn(page, formatBytes(api.lists.maxBytes - mostBytes));
    throw isLater && isRefusal && !isAboutKey(error) ? new ListMoved(error) : error;
  }
}
