/** Examines a unit off the lock, each kind in its own way. */

import type { Unit } from '../destination.ts';
import type { Engine } from './engine.ts';
import { prepareChanges } from './prepare-changes.ts';
import { prepareRetirement } from './prepare-retirement.ts';
import { prepareSnapshot } from './prepare-snapshot.ts';
import type { PreparedUnit } from './prepared.ts';

type UnitOf<Kind extends Unit['kind']> = Extract<Unit, { kind: Kind }>;

type Prepare<Kind extends Unit['kind']> = (engine: Engine, unit: UnitOf<Kind>) => Promise<PreparedUnit>;

/** Complete by its type: a kind that is missing here does not compile. */
const PREPARE: { readonly [Kind in Unit['kind']]: Prepare<Kind> } = {
  snapshot: prepareSnapshot,
  changes: prepareChanges,
  retirement: prepareRetirement,
};

/** @throws what the kinds throw: DataError, UnknownColumnsError, UnusableChangesError, StorageError. */
export function prepareUnit<Kind extends Unit['kind']>(
  engine: Engine,
  kind: Kind,
  unit: UnitOf<Kind>,
): Promise<PreparedUnit> {
  return PREPARE[kind](engine, unit);
}
