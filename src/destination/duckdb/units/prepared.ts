/** A unit that was found fit: what the window needs to know of it, whatever its kind. */

import type { Counts } from '../../../model/version.ts';
import type { Prepared } from '../../destination.ts';
import type { BookEntry } from '../books/book-entry.ts';
import type { Current } from '../books/current-table.ts';
import type { Engine } from '../engine/engine.ts';
import type { MirrorPlace } from '../engine/failures.ts';

export interface PreparedUnit extends Prepared {
  /** Rows that the window writes, as far as they are known: which units go into one transaction is measured by them. */
  readonly rowCount: number;
  /** The most rows of a table that it has to do with. */
  readonly tableRows: number;
  /** Bytes that the window reads from files. */
  readonly bytes: number;

  /**
   * Does the work on the rows inside the transaction it is given. Until that commits nothing of it is seen; whatever is thrown
   * here must undo the whole transaction. Null: the mirror is no longer what the unit was planned from, and nothing
   * was done. `current` is what it has of the dataset at the begin of the transaction.
   */
  carryOut(engine: Engine, current: Current, appliedAt: Date): Promise<Deed | null>;

  /**
   * The error for the person and the planner, from what `carryOut` threw. Runs after the mirror is let go, on the
   * engine that examines files. Never throws.
   */
  explain(engine: Engine, error: unknown, place: MirrorPlace): Promise<Error>;
}

/** What was done, and what is to be written of it: the books of a batch are written together, in its transaction. */
export interface Deed {
  readonly done: Done;
  readonly entry: BookEntry;
}

/** What a unit did, beside what the bookkeeping says of the table afterwards. */
export type Done =
  | {
      readonly kind: 'committed';
      readonly fromVersion: number | null;
      /** Null where the table was replaced as a whole. */
      readonly net: Counts | null;
    }
  /** `table` is where the rows are now, with its schema; null where they are gone. */
  | { readonly kind: 'retired'; readonly table: string | null };
