/**
 * The content of a table as texts that say every value exactly. The model moves values and converts none, so the text of
 * a cell is the same wherever it is: how values are converted is tested with the real parts.
 */

import { createHash } from 'node:crypto';
import type { Cell, Content, Json, Row, SourceSchema } from '../../../fixtures/source/content.ts';
import { columnsOf, keyReader } from '../../../fixtures/source/wire.ts';

export type TextRow = readonly (string | null)[];
/** By the text of the key; by position where a table has no key. */
export type Rows = ReadonlyMap<string, TextRow>;

export interface Texts {
  readonly rows: Rows;
  readonly digest: string;
}

const known = new WeakMap<Content, Texts>();

/** The rows of what was published, in its columns. */
export function textsOf(content: Content): Texts {
  const before = known.get(content);
  if (before !== undefined) return before;
  const { schema } = content;
  const keyOf = schema.keyColumns.length === 0 ? null : keyTextReader(schema);
  const rows = new Map<string, TextRow>();
  for (const row of content.rows()) rows.set(keyOf?.(row) ?? String(rows.size), textRow(row));
  const names = columnsOf(schema).map(({ name }) => name);
  const texts = { rows, digest: digestOfTable(names, rows) };
  known.set(content, texts);
  return texts;
}

export function textRow(row: Row): TextRow {
  return row.map(textOfCell);
}

export function keyTextReader(schema: SourceSchema): (row: Row) => string {
  const keyOf = keyReader(schema);
  return (row) => keyText(keyOf(row));
}

export function keyText(key: readonly Cell[]): string {
  return JSON.stringify(key.map(textOfCell));
}

/** Of the names of the columns and every row, whatever the order of the rows. */
export function digestOfTable(names: readonly string[], rows: Rows): string {
  const lines = Array.from(rows.values(), (row) => JSON.stringify(row)).sort();
  return createHash('sha256')
    .update([JSON.stringify(names), ...lines].join('\n'))
    .digest('hex');
}

/** Geometries are long, and most rows stay as they are. */
const textsOfObjects = new WeakMap<object, string>();

function textOfCell(cell: Cell): string | null {
  if (cell === null) return null;
  if (typeof cell === 'string') return cell;
  if (typeof cell === 'number') return String(cell === 0 ? 0 : cell);
  if (typeof cell !== 'object') return String(cell);
  const text = textsOfObjects.get(cell) ?? JSON.stringify('json' in cell ? (cell as Json).json : cell);
  textsOfObjects.set(cell, text);
  return text;
}
