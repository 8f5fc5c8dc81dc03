/** Which format the catalog of the mirror has, and its creation and migration. */

import { ConfigurationError } from '../../../model/errors.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import { damagedBookkeeping } from '../../../staging/engine/errors.ts';
import { type Meta, metaOf } from '../../catalog/observed-state.ts';
import { createSchema, FORMAT_VERSION, isKnownFormat, migrate, selectMeta, selectSchema } from './schema.ts';

/**
 * Creates the catalog in a new mirror, and migrates an earlier format. Must run before any other write to the catalog. Resolves
 * to whether the mirror is new.
 * @throws ConfigurationError when a newer program wrote the mirror.
 */
export async function ensureSchema(engine: Engine, path: string): Promise<boolean> {
  const format = await readFormat(engine, path);
  if (format !== null) await migrateFrom(engine, format);
  else for (const statement of createSchema()) await engine.run(statement);
  return format === null;
}

/** Migrates the catalog from the format that it has. */
export async function migrateFrom(engine: Engine, format: number): Promise<void> {
  for (const statement of migrate(format)) await engine.run(statement);
}

/** Returns whether the attached database is a mirror. */
export async function hasSchema(engine: Engine): Promise<boolean> {
  return (await engine.rows(selectSchema())).length > 0;
}

/**
 * Returns null when the attached database is not a mirror yet. @throws ConfigurationError when a newer program wrote the
 * mirror.
 */
export async function readFormat(engine: Engine, path: string): Promise<number | null> {
  return (await hasSchema(engine)) ? (await readMeta(engine, path)).format : null;
}

/** Reads what the catalog says of itself. @throws ConfigurationError when a newer program wrote the mirror; DuckDbError */
export async function readMeta(engine: Engine, path: string): Promise<Meta> {
  const meta = metaOf(await engine.rows(selectMeta()));
  // The transaction that creates the catalog writes its format.
  if (Number.isNaN(meta.format)) throw damagedBookkeeping('its format is no number');
  if (!isKnownFormat(meta.format)) {
    throw new ConfigurationError(
      `The mirror ${path} has the format ${meta.format}; this program knows no format above ${FORMAT_VERSION}.`,
      { hint: 'Use the newer version of feed-sync that wrote it, or set destination.path to another file.' },
    );
  }
  return meta;
}
