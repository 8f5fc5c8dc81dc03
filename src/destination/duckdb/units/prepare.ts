/** Examines a unit off the lock, each kind in its own way. */

import type { Unit } from '../../destination.ts';
import { prepareChanges } from '../changes/prepare-changes.ts';
import type { Engine } from '../engine/engine.ts';
import { prepareRetirement } from '../retirement/prepare-retirement.ts';
import { prepareSnapshot } from '../snapshot/prepare-snapshot.ts';
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
