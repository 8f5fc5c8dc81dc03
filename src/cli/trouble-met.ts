/** Trouble as data, for the commands that tell what they met as JSON. Pure. */

import { CommandRefusedError, FeedSyncError, RefusalError } from '../model/errors.ts';

export interface TroubleMet {
  /** The class of the error: `ServiceUnavailableError`, `RefusalError`, … */
  readonly error: string;
  readonly message: string;
  readonly hint: string | null;
  /** Those of a refusal. */
  readonly links: Readonly<Record<string, string>>;
}

export function troubleMet(error: Error): TroubleMet {
  const isRefusal = error instanceof RefusalError || error instanceof CommandRefusedError;
  const links = isRefusal ? Object.fromEntries(error.refusal.links) : {};
  const hint = error instanceof FeedSyncError ? error.hint : null;
  return { error: error.name, message: error.message, hint, links };
}
