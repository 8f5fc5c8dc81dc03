/** The datasets that `once DATASET…` asks for, by ids and globs. */

import type { Configuration } from '../configuration/configuration.ts';
import { struckOut } from '../lib/secret.ts';
import { UsageError } from '../model/errors.ts';
import type { IsAsked } from '../sync/catch-up.ts';
import { namedDatasets } from '../sync/follow/subscriptions.ts';
import type { Parts } from '../sync/parts.ts';
import { EXIT_CODES, type ExitCode } from './exit-codes.ts';
import { formatError, formatUnknown, knownNames } from './render/messages.ts';

/** Returns the choice of datasets; without names every dataset is chosen. */
export function askedBy(names: readonly string[]): IsAsked | undefined {
  if (names.length === 0) return undefined;
  return (datasetId) => namedDatasets(names, [datasetId]).datasetIds.length > 0;
}

/** The ids and globs that match no dataset. */
interface Unknown {
  readonly exitCode: ExitCode;
  /** For standard error. */
  readonly text: string;
}

/** Looks for names that no dataset has. Only a catch-up knows them, because it has read what the subscriptions contain by now. */
export function unknownAmong(
  names: readonly string[],
  { checkpoint }: Pick<Parts, 'checkpoint'>,
  { service }: Configuration,
): Unknown | null {
  if (names.length === 0) return null;
  const known = [...checkpoint.desiredStates().keys()];
  const { unknown } = namedDatasets(names, known);
  if (unknown.length === 0) return null;
  const error = new UsageError(`No subscription contains ${formatUnknown(unknown, known)}.`, {
    hint: knownNames(known, 'feed-sync status lists the datasets.'),
  });
  // Somebody may have given the key where an id belongs.
  const text = struckOut(formatError(error), [service.apiKey.reveal()]);
  return { exitCode: EXIT_CODES.wrongUsage, text: `feed-sync: ${text}\n` };
}
