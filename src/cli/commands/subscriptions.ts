/** `feed-sync subscriptions`: lists the subscriptions that the API key can see. Changes nothing on this machine. */

import type { Configuration } from '../../configuration/configuration.ts';
import { createFeed } from '../../feed/create-feed.ts';
import { formatCount } from '../../lib/units.ts';
import type { Subscription } from '../../model/records.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { logFor } from '../log-for.ts';
import { jsonText, renderTable } from '../render/table.ts';
import { feedOptions } from '../service-client.ts';

export interface SubscriptionsOptions {
  readonly json: boolean;
}

/** @throws FeedSyncError when the service cannot be asked. */
export async function listSubscriptions(
  configuration: Configuration,
  context: Context,
  { json }: SubscriptionsOptions,
): Promise<ExitCode> {
  const { terminal, signal } = context;
  const { stdout, width } = terminal;
  const feed = createFeed(feedOptions(configuration, context, logFor(configuration, terminal)));
  try {
    const { subscriptions } = await feed.subscriptions(signal);
    await write(
      stdout,
      json ? jsonText({ subscriptions: subscriptions.map(asJson) }) : asTable(subscriptions, width),
    );
    return EXIT_CODES.caughtUp;
  } finally {
    await feed.close();
  }
}

function asJson({ lastEventId, ...subscription }: Subscription) {
  return { ...subscription, lastEventId: lastEventId?.text ?? null };
}

function asTable(subscriptions: readonly Subscription[], width: number): string {
  if (subscriptions.length === 0)
    return 'This API key sees no subscriptions. They are made in the web application of the service.\n';
  const columns = [
    { title: 'subscription' },
    { title: 'name' },
    { title: 'datasets', align: 'right' as const },
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
