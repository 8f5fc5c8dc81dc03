/** `feed-sync watches`, `watch` and `unwatch`: the datasets whose new versions are sent to webhooks. */

import type { Configuration } from '../../configuration/configuration.ts';
import { isAboutKey } from '../../feed/http/refusal.ts';
import type { Watch } from '../../feed/operator.ts';
import { printable } from '../../lib/text.ts';
import { formatCount } from '../../lib/units.ts';
import { CommandRefusedError, FeedSyncError, UsageError } from '../../model/errors.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf, mostUrgent } from '../exit-codes.ts';
import { formatError, minuteOf } from '../render/messages.ts';
import { jsonText, renderTable } from '../render/table.ts';
import { usingOperator } from '../service-client.ts';

const NOTHING_WATCHED = 'No dataset is watched. Watch one with: feed-sync watch DATASET\n';

/** @throws FeedSyncError when the service cannot be asked. */
export async function listWatches(
  configuration: Configuration,
  context: Context,
  { json }: { readonly json: boolean },
): Promise<ExitCode> {
  const { terminal, signal } = context;
  const watches = await usingOperator(configuration, context, (operator) => operator.watches(signal));
  await write(terminal.stdout, json ? jsonText({ watches: watches.map(asJson) }) : asTable(watches));
  return EXIT_CODES.caughtUp;
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
      ask: (id) => operator.watch(id, context.signal),
      report: (id) => `Watching ${printable(id)}: each new version is sent to your webhooks.`,
    }),
  );
}

export function unwatchDatasets(
  datasetIds: readonly string[],
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const ids = namedOnce(datasetIds, 'unwatch');
  return usingOperator(configuration, context, (operator) =>
    oneByOne(ids, context, {
      ask: (id) => operator.unwatch(id, context.signal),
      report: (id) => `No longer watching ${printable(id)}.`,
    }),
  );
}

function namedOnce(ids: readonly string[], command: string): readonly string[] {
  if (ids.includes('')) {
    throw new UsageError('The id of a dataset is empty.', { hint: `feed-sync ${command} --help` });
  }
  return [...new Set(ids)];
}

function asJson({ datasetId, createdAt }: Watch) {
  return { datasetId, createdAt: createdAt?.toISOString() ?? null };
}

function asTable(watches: readonly Watch[]): string {
  if (watches.length === 0) return NOTHING_WATCHED;
  const rows = watches.map(({ datasetId, createdAt }) => [
    datasetId,
    createdAt === null ? '' : minuteOf(createdAt.toISOString()),
  ]);
  return `${renderTable([{ title: 'dataset' }, { title: 'watched since (UTC)' }], rows)}\n`;
}

export interface Asked<Subject> {
  ask(subject: Subject): Promise<void>;
  /** Returns a line for a subject that succeeded. */
  report(subject: Subject): string;
}

/** Reports each subject, and returns the code of the most urgent error. */
export async function oneByOne<Subject>(
  subjects: readonly Subject[],
  { terminal }: Pick<Context, 'terminal'>,
  { ask, report }: Asked<Subject>,
): Promise<ExitCode> {
  const codes: ExitCode[] = [];
  for (const [index, subject] of subjects.entries()) {
    try {
      await ask(subject);
      await write(terminal.stdout, `${report(subject)}\n`);
    } catch (error) {
      if (!(error instanceof FeedSyncError)) throw error;
      codes.push(exitCodeOf(error));
      await write(terminal.stderr, `feed-sync: ${formatError(error)}\n`);
      if (isOfThisOneOnly(error)) continue;
      const left = subjects.length - index - 1;
      if (left > 0) await write(terminal.stderr, `Not asked for the ${formatCount(left)} that follow.\n`);
      break;
    }
  }
  return mostUrgent(codes);
}

function isOfThisOneOnly(error: FeedSyncError): boolean {
  return error instanceof CommandRefusedError && !isAboutKey(error);
}
