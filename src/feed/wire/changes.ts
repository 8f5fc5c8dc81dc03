/** The envelope of a page of changes. Its rows are spooled as they came and decoded by the destination. */

import { z } from 'zod';
import { count, decode, id, nextCursor, optional, violation } from './fields.ts';

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
  /** False: the service says that it did not record the changes of this version. */
  readonly recorded: boolean;
  readonly previousVersion: number | null;
  readonly schemaVersion: string | null;
  readonly nextCursor: string | null;
}

/** @throws ContractViolationError, also where it is a page of other changes than were asked for. */
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
