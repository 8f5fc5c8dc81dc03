/**
 * Reads a mirror without bending anything: every value comes as the hexadecimal digits of a text that says it exactly,
 * because what DuckDB hands to JavaScript as text loses a leading byte order mark, and as numbers the large ones.
 */

import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { ColumnType } from '../../fixtures/source/content.ts';

export interface ExactMirror {
  /** The rows of a query whose columns are all text; null stays null. */
  rows(sql: string): Promise<readonly (readonly (string | null)[])[]>;
  close(): void;
}

/** Opens the mirror read-only, in UTC. */
export async function openExactly(mirrorPath: string): Promise<ExactMirror> {
  const instance = await DuckDBInstance.create(mirrorPath, { access_mode: 'READ_ONLY', threads: '1' });
  return await exactly(instance, await instance.connect());
}

/** Reads through a connection, which `close` closes with its instance, in UTC. */
export async function exactly(instance: DuckDBInstance, connection: DuckDBConnection): Promise<ExactMirror> {
  await connection.run("SET TimeZone = 'UTC'");
  return {
    async rows(sql) {
      const encoded = await connection.runAndReadAll(`SELECT hex(encode(COLUMNS(*))) FROM (${sql})`);
      return encoded
        .getRows()
        .map((row) => row.map((value) => (value === null ? null : unhex(String(value)))));
    },
    close() {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

/** SQL for the text that says a value of the mirror exactly; cell-text.ts writes the same of what was published. */
export function exactText(type: ColumnType, value: string): string {
  switch (type) {
    case 'geometry':
      return `hex(ST_AsWKB(${value}))`;
    case 'timestamp':
      return `epoch_us(${value})::VARCHAR`;
    default:
      return `${value}::VARCHAR`;
  }
}

export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function unhex(digits: string): string {
  return Buffer.from(digits, 'hex').toString('utf8');
}
