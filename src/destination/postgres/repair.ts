/**
 * Repairs a table: brings its rows to the content that the service has for its version. Version, columns, snapshot and reloads stay as
 * they are.
 *
 * Invariant: the undo log never claims to know a state that nobody committed. A repair that finds rows which were altered by hand
 * writes no entries; unless it leads back to what was committed, it closes the log.
 */

import { StorageError } from '../../model/errors.ts';
import type { ObservedTable, RepairJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { type ContentRows, examineRepair } from '../../staging/version-content.ts';
import { isSameChecksum } from '../catalog/cells.ts';
import { hasOtherColumns } from '../catalog/columns.ts';
import { type CatalogEntry, entryOfRepair } from '../catalog/entries.ts';
import { isPlannedFrom } from '../catalog/guard.ts';
import { plannedColumn } from '../catalog/restored-state.ts';
import type { Awaiting } from '../judge-commit.ts';
import { qualified } from './catalog/names.ts';
import type { Current } from './catalog/observed-state.ts';
import { isSameContent, readContent } from './content.ts';
import { strayOf } from './count-tables.ts';
import { datasetError } from './errors.ts';
import type { Turn, ValidatedWrite } from './job.ts';
import type { Target } from './stage.ts';
import { compareWholeRows, hasKeys, stageContent } from './stage-content.ts';
import { alterationTo, type FoundTable } from './tables.ts';
import { writeStaged } from './write-staged.ts';

/** Validates a repair. @throws DataError, UnknownColumnsError, InapplicableChangesError, StorageError */
export async function validateRepair(engine: Engine, job: RepairJob, place: string): Promise<ValidatedWrite> {
  const content = await examineRepair(engine, job);
  return {
    job,
    execute: (turn, current) => repair(turn, job, content, current),
    explain: async (_examiner, error) => datasetError(error, place),
  };
}

/** Returns the catalog entry; null when the mirror differs from the plan's observed state. @throws DataError, StorageError */
async function repair(
  turn: Turn,
  job: RepairJob,
  content: ContentRows,
  current: Current,
): Promise<CatalogEntry | Awaiting | null> {
  const { live, recordedColumns, checksum: recorded } = current;
  if (live === null || !isPlannedFrom(live, job.plannedFrom)) return null;
  const { transaction, postgis, indexes, appliedAt } = turn;
  const { tableName, version, publishedAt, columns } = live;
  const found = repairable(turn, live, current.found);
  const { schemaName, isDistributed } = current;
  const planned = recordedColumns.map(plannedColumn);
  const target: Target = { schemaName, tableName, isDistributed, columns: planned, isNet: false };
  const staged = await stageContent(turn, target, columns, job.content, content);
  const table = qualified(target);
  if (isSameContent(await readContent(transaction, table, columns), staged)) {
    const message = `The table ${tableName} is equal to the content of the service: nothing is to be repaired.`;
    throw new StorageError(message, { code: 'dataset_storage_failed' });
  }
  const isByKey = await hasKeys(transaction, target);
  const wholeRows = isByKey ? null : await compareWholeRows(transaction, target);
  const written = await writeStaged(turn, {
    target,
    current,
    found,
    version: { datasetId: job.datasetId, version, publishedAt },
    alteration: alterationTo(target, found, target.columns, postgis, indexes),
    gate: undefined,
    digest: () => '',
    rowCount: staged.rowCount,
    looksForAltered: true,
    restores: isSameChecksum(recorded, staged.checksum),
    async prove() {
      if (isSameContent(await readContent(transaction, table, columns), staged)) return;
      throw new StorageError(
        `The table ${tableName} could not be repaired: a trigger or a rule changes its rows.`,
        { code: 'dataset_storage_failed' },
      );
    },
  });
  if ('kind' in written) return written;
  const net = wholeRows ?? written.net;
  const isLogged = turn.keepsHistory && live.keyColumns.length > 0;
  return entryOfRepair(live, { columns: recordedColumns, ...staged, net, appliedAt, isLogged });
}

/** @throws StorageError */
function repairable({ postgis }: Turn, live: ObservedTable, found: FoundTable | null): FoundTable {
  const [stray] = found === null ? [] : strayOf(live, found.columns, postgis);
  if (found !== null && stray === undefined) return found;
  const { tableName } = live;
  const why =
    stray === undefined ? `The table ${tableName} is missing.` : hasOtherColumns(tableName, stray.columnName);
  throw new StorageError(why, {
    code: 'dataset_storage_failed',
    hint: 'Load it again: feed-sync resync',
  });
}
