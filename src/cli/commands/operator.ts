/**
 * The commands that list what the service says, `subscriptions`, `coverage` and `watches`, and those that change its
 * watches, `watch` and `unwatch`. They change nothing on this machine.
 */

import type { Configuration } from '../../configuration/configuration.ts';
import { isAboutKey } from '../../feed/http/refusal.ts';
import type { County, Watch } from '../../feed/operator.ts';
import { nearest, printable } from '../../lib/text.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { CommandRefusedError, FeedSyncError, UsageError } from '../../model/errors.ts';
import type { Subscription } from '../../model/records.ts';
import { readCheckpoint } from '../../reporting/stores.ts';
import { type Context, write, writeMessage } from '../context.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf, mostUrgent } from '../exit-codes.ts';
import { jsonText } from '../render/formats.ts';
import { formatError, listed, minuteOf } from '../render/messages.ts';
import { renderTable, rightAligned } from '../render/table.ts';
import { usingFeed, usingOperator } from '../service-client.ts';

/** Lists the subscriptions. @throws FeedSyncError when the service cannot be asked. */
export async function listSubscriptions(
  configuration: Configuration,
  context: Context,
  json: boolean,
): Promise<ExitCode> {
  const { terminal, signal } = context;
  const { subscriptions } = await usingFeed(configuration, context, {}, (feed) => feed.subscriptions(signal));
  const text = json
    ? jsonText({ subscriptions: subscriptions.map(subscriptionJson) })
    : subscriptionTable(subscriptions, terminal.width);
  await write(terminal.stdout, text);
  return EXIT_CODES.caughtUp;
}

function subscriptionJson({ lastEventId, ...subscription }: Subscription) {
  return { ...subscription, lastEventId: lastEventId?.text ?? null };
}

function subscriptionTable(subscriptions: readonly Subscription[], width: number): string {
  if (subscriptions.length === 0) {
    return 'This API key sees no subscriptions. They are made in the web application of the service.\n';
  }
  const columns = [
    { title: 'subscription' },
    { title: 'name' },
    rightAligned('datasets'),
    { title: 'last event' },
    { title: 'topics', isOptional: true },
    { title: 'places', wraps: true },
  ];
  const rows = subscriptions.map(({ id, name, datasetCount, datasetIds, places, topics, lastEventId }) => [
    id,
    name ?? '',
    formatCount(datasetCount ?? datasetIds.length),
    lastEventId?.text ?? '',
    abbreviated(topics),
    abbreviated(places),
  ]);
  return `${renderTable(columns, rows, width)}\n`;
}

/** The most names of a list that are shown; the rest is counted. */
const MAX_SHOWN = 3;

function abbreviated(names: readonly string[]): string {
  const rest = names.length - MAX_SHOWN;
  return names.slice(0, MAX_SHOWN).join(', ') + (rest > 0 ? ` and ${formatCount(rest)} more` : '');
}

/** Lists the coverage. Every field that the service gives is in the JSON. @throws FeedSyncError when the service cannot be asked. */
export async function listCoverage(
  configuration: Configuration,
  context: Context,
  json: boolean,
): Promise<ExitCode> {
  const { terminal, signal } = context;
  const counties = await usingOperator(configuration, context, (operator) => operator.coverage(signal));
  const asJson = counties.map(({ further, ...county }) => ({ ...county, ...Object.fromEntries(further) }));
  await write(terminal.stdout, json ? jsonText({ counties: asJson }) : countyTable(counties));
  return EXIT_CODES.caughtUp;
}

/** The most fields beside id, name and state that a table shows. */
const MAX_FURTHER_COLUMNS = 6;
const MAX_CELL_CHARACTERS = 60;

function countyTable(counties: readonly County[]): string {
  if (counties.length === 0) {
    return 'The workspace covers no county: nothing can be subscribed to yet. Counties are added in the web application of the service.\n';
  }
  const all = [...new Set(counties.flatMap(({ further }) => [...further.keys()]))];
  const shown = all.slice(0, MAX_FURTHER_COLUMNS);
  const columns = ['county', 'name', 'state', ...shown].map((title) => ({ title }));
  const rows = counties.map(({ id, name, state, further }) => {
    return [id, name ?? '', state ?? '', ...shown.map((field) => cellOf(further.get(field)))];
  });
  const rest = all.length - shown.length;
  const more = rest === 0 ? '' : `\nThe service gives ${plural(rest, 'field')} more: see --json.\n`;
  return `${renderTable(columns, rows)}\n${more}`;
}

function cellOf(value: unknown): string {
  const text = typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value);
  return text.length > MAX_CELL_CHARACTERS
    ? `${text.slice(0, MAX_CELL_CHARACTERS - 1).toWellFormed()}…`
    : text;
}

/** Lists the datasets under watch. @throws FeedSyncError when the service cannot be asked. */
export async function listWatches(
  configuration: Configuration,
  context: Context,
  json: boolean,
): Promise<ExitCode> {
  const { terminal, signal } = context;
  const watches = await usingOperator(configuration, context, (operator) => operator.watches(signal));
  const asJson = watches.map(({ datasetId, createdAt }) => {
    return { datasetId, createdAt: createdAt?.toISOString() ?? null };
  });
  await write(terminal.stdout, json ? jsonText({ watches: asJson }) : watchTable(watches));
  return EXIT_CODES.caughtUp;
}

function watchTable(watches: readonly Watch[]): string {
  if (watches.length === 0) return 'No dataset is watched. Watch one with: feed-sync watch DATASET\n';
  const rows = watches.map(({ datasetId, createdAt }) => [
    datasetId,
    createdAt === null ? '' : minuteOf(createdAt),
  ]);
  return `${renderTable([{ title: 'dataset' }, { title: 'watched since (UTC)' }], rows)}\n`;
}

/** Returns the most urgent exit code of the failed datasets; the others are watched all the same. */
export function watchDatasets(
  datasetIds: readonly string[],
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const ids = namedOnce(datasetIds, 'watch');
  return usingOperator(configuration, context, (operator) =>
    oneByOne(ids, context, {
      async ask(id) {
        await operator.watch(id, context.signal);
        return `Watching ${printable(id)}: each new version is sent to your webhooks.`;
      },
      known: async () => knownDatasets(configuration, context),
      none: 'No dataset is known yet. Catch up first: feed-sync once',
    }),
  );
}

/** Ends the watch of datasets, as `watchDatasets` begins it. */
export function unwatchDatasets(
  datasetIds: readonly string[],
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const ids = namedOnce(datasetIds, 'unwatch');
  return usingOperator(configuration, context, (operator) =>
    oneByOne(ids, context, {
      async ask(id) {
        await operator.unwatch(id, context.signal);
        return `No longer watching ${printable(id)}.`;
      },
      known: async () => (await operator.watches(context.signal)).map(({ datasetId }) => datasetId),
      none: 'No dataset is watched.',
    }),
  );
}

/** The datasets that a catch-up has seen; the service has no list of all. */
function knownDatasets(configuration: Configuration, { identity }: Context): readonly string[] {
  return [...(readCheckpoint(configuration, identity.uid)?.desiredStates.keys() ?? [])].sort();
}

function namedOnce(ids: readonly string[], command: string): readonly string[] {
  if (ids.includes('')) {
    throw new UsageError('The id of a dataset is empty.', { hint: `feed-sync ${command} --help` });
  }
  return [...new Set(ids)];
}

interface Request {
  /** Resolves to a line for an id that succeeded. */
  ask(id: string): Promise<string>;
  /** The ids that are known, for an id that was mistyped. */
  known(): Promise<readonly string[]>;
  /** The sentence for the case that none is known. */
  readonly none: string;
}

/** No other id fares better where the key is refused, or where the service does not answer. */
function isOfOneOnly(error: FeedSyncError): boolean {
  return error instanceof CommandRefusedError && !isAboutKey(error);
}

/** Empty where the known ids cannot be read. */
async function knownLine(id: string, { known, none }: Request): Promise<string> {
  const ids = await known().catch(() => null);
  if (ids === null) return '';
  if (ids.length === 0) return `→ ${none}\n`;
  const candidate = nearest(id, ids);
  const meant = candidate === null || candidate === id ? '' : `The nearest is ${printable(candidate)}. `;
  return `→ ${meant}Known: ${listed(ids)}.\n`;
}

/** Asks for one id after another, reports each, and returns the code of the most urgent error. */
export async function oneByOne(
  ids: readonly string[],
  { terminal }: Context,
  request: Request,
): Promise<ExitCode> {
  const codes: ExitCode[] = [];
  for (const [index, id] of ids.entries()) {
    try {
      await write(terminal.stdout, `${await request.ask(id)}\n`);
    } catch (error) {
      if (!(error instanceof FeedSyncError)) throw error;
      codes.push(exitCodeOf(error));
      const names = error.code === 'input_refused' ? await knownLine(id, request) : '';
      await writeMessage(terminal, `feed-sync: ${formatError(error)}\n${names}`);
      if (isOfOneOnly(error)) continue;
      const left = ids.length - index - 1;
      if (left > 0) await writeMessage(terminal, `Not requested: ${formatCount(left)} more.\n`);
      break;
    }
  }
  return mostUrgent(codes);
}
