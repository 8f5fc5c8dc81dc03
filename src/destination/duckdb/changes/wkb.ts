/**
 * Whether well-known binary is one geometry, to its last byte. DuckDB's own reader takes more than that: a second geometry
 * behind the first, parts of another type or with other dimensions than the whole, bits of the type that mean nothing. It
 * keeps them as they are, and whoever reads the table fails on them.
 *
 * So the pages that hold any are read again, here. What DuckDB refuses it has refused before.
 */

import { readFile } from 'node:fs/promises';
import { pageCells } from './cells.ts';
import type { ChangesColumns } from './columns.ts';
import type { Page } from './pages.ts';

/** Parts in parts: DuckDB writes no geometry as text that is nested deeper. */
const MAX_PART_DEPTH = 15;

const HEXADECIMAL = /^(?:[\da-f]{2})+$/i;

export interface OddGeometry {
  /** From 1. */
  readonly line: number;
  readonly column: string;
  /** As it is written, in JSON. */
  readonly written: string;
}

/** The first geometry of the page in well-known binary that is not one; null where there is none. */
export async function findOddGeometry(page: Page, { columns }: ChangesColumns): Promise<OddGeometry | null> {
  const names = new Set(columns.flatMap(({ column, type }) => (type === 'geometry' ? [column.name] : [])));
  for (const { line, column, cell } of pageCells(JSON.parse(await readFile(page.path, 'utf8')))) {
    if (!names.has(column) || typeof cell !== 'string' || !HEXADECIMAL.test(cell)) continue;
    if (!isOneGeometry(Buffer.from(cell, 'hex'))) return { line, column, written: JSON.stringify(cell) };
  }
  return null;
}

/** Of ISO or EWKB, in any order of bytes. A coordinate system may stand with the whole, and with no part. Pure. */
export function isOneGeometry(wkb: Buffer): boolean {
  try {
    return endOf(wkb, 0, null, MAX_PART_DEPTH) === wkb.length;
  } catch (error) {
    // Node says so where there are fewer bytes than are asked for.
    if (error instanceof RangeError) return false;
    throw error;
  }
}

const POINT = 1;
const LINE_STRING = 2;
const POLYGON = 3;
const MULTI_POINT = 4;
const COLLECTION = 7;

const HEIGHT = 0x8000_0000;
const MEASURE = 0x4000_0000;
const SRID = 0x2000_0000;

interface Head {
  /** 1 to 7, in the order of the standard. */
  readonly kind: number;
  readonly hasHeight: boolean;
  readonly hasMeasure: boolean;
}

/** Where the geometry ends that begins at `start`. @throws RangeError where none ends. */
function endOf(wkb: Buffer, start: number, whole: Head | null, depth: number): number {
  const order = wkb.readUInt8(start);
  const wordAt = (at: number): number => (order === 1 ? wkb.readUInt32LE(at) : wkb.readUInt32BE(at));
  const type = wordAt(start + 1);
  const head = headOf(type);
  const hasSystem = (type & SRID) !== 0;
  if (order > 1 || head === null || !isPartOf(head, whole) || (hasSystem && whole !== null))
    throw new RangeError();

  const body = start + (hasSystem ? 9 : 5);
  const positionBytes = 8 * (2 + Number(head.hasHeight) + Number(head.hasMeasure));
  if (head.kind === POINT) return body + positionBytes;
  if (head.kind === LINE_STRING) return body + 4 + wordAt(body) * positionBytes;
  if (head.kind >= MULTI_POINT && depth === 0) throw new RangeError();
  let end = body + 4;
  for (let parts = wordAt(body); parts > 0; parts -= 1) {
    if (head.kind === POLYGON) end += 4 + wordAt(end) * positionBytes;
    else end = endOf(wkb, end, head, depth - 1);
  }
  return end;
}

/** Null where the number means nothing. */
function headOf(type: number): Head | null {
  const code = (type & ~(HEIGHT | MEASURE | SRID)) >>> 0;
  const dimensions = Math.trunc(code / 1_000);
  const kind = code % 1_000;
  if (kind < POINT || kind > COLLECTION || dimensions > 3) return null;
  return {
    kind,
    hasHeight: (type & HEIGHT) !== 0 || dimensions % 2 === 1,
    hasMeasure: (type & MEASURE) !== 0 || dimensions >= 2,
  };
}

function isPartOf(part: Head, whole: Head | null): boolean {
  if (whole === null) return true;
  const isKind = whole.kind === COLLECTION || part.kind === whole.kind - (MULTI_POINT - POINT);
  return isKind && part.hasHeight === whole.hasHeight && part.hasMeasure === whole.hasMeasure;
}
