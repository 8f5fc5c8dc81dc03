/**
 * Changes taken apart, in Parquet files: those of a unit at once, or in parts, as its versions came. A part counts its pages and
 * its steps from its own beginning, so that nothing has to be known of what comes before it.
 */

import { assert } from '../../../lib/assert.ts';
import { durable } from '../../../lib/durable.ts';
import type { ChangesUnit, ReadAhead, VersionChanges } from '../../destination.ts';
import { DuckDbError } from '../engine/diagnosis.ts';
import type { Engine } from '../engine/engine.ts';
import { readParquet } from '../snapshot/parquet-file.ts';
import { type ChangesColumns, changesColumns } from './columns.ts';
import type { Forms } from './geometry.ts';
import { besidePages, spooledPages } from './pages.ts';
import { type Decoding, writeDecoded } from './sql.ts';

export interface DecodedPart extends ReadAhead {
  readonly path: string;
  /** How many pages, and parts of pages, were read. */
  readonly pages: number;
  readonly forms: Forms;
  /** What decides how it was decoded, as text. */
  readonly decodedAs: string;
}

/** Null where it cannot be done. */
export async function readAhead(engine: Engine, unit: ChangesUnit): Promise<DecodedPart | null> {
  try {
    return await decodeVersions(engine, unit.versions, changesColumns(unit));
  } catch {
    // Whatever it is, it comes again as the unit is prepared, and is told there.
    if (engine.invalidated) await engine.reopen();
    return null;
  }
}

/** @throws DuckDbError */
export async function decodeVersions(
  engine: Engine,
  versions: readonly VersionChanges[],
  columns: ChangesColumns,
): Promise<DecodedPart> {
  const pages = await spooledPages(versions);
  const path = besidePages(versions, 'decoded.parquet');
  const forms = await asFile(() => decode(engine, { pages, columns }, path));
  const decodedAs = JSON.stringify(columns);
  return { path, versions: versions.length, pages: pages.all.length, forms, decodedAs };
}

/** What was read ahead of a unit, as far as it was decoded as the unit is: not where its path was cut before its schema changed. */
export function readBefore({ ahead = [] }: ChangesUnit, columns: ChangesColumns): readonly DecodedPart[] {
  const decodedAs = JSON.stringify(columns);
  const parts = ahead.map(ownPart);
  return parts.every((part) => part.decodedAs === decodedAs) ? parts : [];
}

/** All changes of the parts, with their pages and steps counted through, for use after FROM. */
export function decodedRows(parts: readonly DecodedPart[]): string {
  let pages = 0;
  let steps = 0;
  const selects = parts.map((part) => {
    const select = `SELECT * REPLACE (page + ${pages} AS page, step + ${steps} AS step) FROM ${readParquet([part.path])}`;
    pages += part.pages;
    steps += part.versions;
    return select;
  });
  return `(${selects.join(' UNION ALL ')})`;
}

/** Writes decoded changes into a file of their unit. */
export function asFile<T>(write: () => Promise<T>): Promise<T> {
  return durable('destination.decode-changes', write);
}

/** Most geometries are written in one way, so that is tried first. */
async function decode(engine: Engine, decoding: Decoding, path: string): Promise<Forms> {
  try {
    await engine.run(writeDecoded(decoding, 'usual', path));
    return 'usual';
  } catch (error) {
    const hasGeometry = decoding.columns.columns.some(({ type }) => type === 'geometry');
    if (!hasGeometry || !(error instanceof DuckDbError) || error.trouble !== 'statement') throw error;
    await engine.run(writeDecoded(decoding, 'every', path));
    return 'every';
  }
}

function ownPart(ahead: ReadAhead): DecodedPart {
  assert('decodedAs' in ahead, 'what was read ahead is prepared by the destination that read it');
  return ahead as DecodedPart;
}
