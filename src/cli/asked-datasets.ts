/** The datasets that `once DATASET…` asks for, by ids and globs. */

import type { Configuration } from '../configuration/configuration.ts';
import { struckOut } from '../lib/secret.ts';
import { UsageError } from '../model/errors.ts';
import type { IsAsked } from '../sync/catch-up.ts';
import { namedDatasets } from '../sync/follow/subscriptions.ts';
import type { Parts } from '../sync/parts.ts';
import { type Context, write } from './context.ts';
import { EXIT_CODES, type ExitCode } from './exit-codes.ts';
import { formatError, formatUnknown } from './render/messages.ts';

/** Without names every dataset is asked for. */
export function askedBy(names: readonly string[]): IsAsked | undefined {
  if (names.length === 0) return undefined;
  return (datasetId) => namedDatasets(names, [datasetId]).datasetIds.length > 0;
}

/** Reports names that no dataset has. Only a catch-up can tell, because it has read what the subscriptions contain by now. */
export async function reportUnknown(
  names: readonly string[],
  { checkpoint }: Pick<Parts, 'checkpoint'>,
  { terminal }: Context,
  { service }: Configuration,
): Promise<readonly ExitCode[]> {
  if (names.length === 0) return [];
  const known = [...checkpoint.desiredStates().keys()];
  const { unknown } = namedDatasets(names, known);
  if (unknown.length === 0) return [];
  const error = new UsageError(`No subscription contains ${formatUnknown(unknown, known)}.`, {
    hint: 'feed-sync status lists the datasets.',
  });
  // Somebody may have given the key where an id belongs.
  const text = struckOut(formatError(error), [service.apiKey.reveal()]);
  await write(terminal.stderr, `feed-sync: ${text}\n`);
  return [EXIT_CODES.wrongUsage];
}
