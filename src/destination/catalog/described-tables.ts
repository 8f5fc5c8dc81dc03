/** The live tables with the service's descriptions of their columns, from the catalog of any destination. */

import type { DestinationReader, Rendered } from '../reader.ts';

/** A live table. */
export interface DescribedTable {
  readonly datasetId: string;
  readonly schemaName: string;
  readonly tableName: string;
  /** In the order of the table. */
  readonly columns: readonly DescribedColumn[];
}

export interface DescribedColumn {
  /** The column's name in the table. */
  readonly columnName: string;
  /** The service's type of the column. */
  readonly type: string;
  readonly description: string | null;
  readonly isKey: boolean;
}

/** A row for each column; a table without columns has one row with nulls. */
const DESCRIBED_TABLES = `
  SELECT d.dataset_id, d.schema_name, d.table_name, c.column_name, c.type, c.description, c.role = 'key'
  FROM feed_sync.datasets d LEFT JOIN feed_sync.columns c ON c.dataset_id = d.dataset_id
  ORDER BY d.schema_name, d.table_name, c.position`;

/** Returns the live tables by schema and name. @throws as `DestinationReader.query` */
export async function describedTables(reader: DestinationReader): Promise<readonly DescribedTable[]> {
  const tables = new Map<string, DescribedTable & { readonly columns: DescribedColumn[] }>();
  const { rows } = await reader.query(DESCRIBED_TABLES);
  for await (const [datasetId, schemaName, tableName, columnName, type, description, isKey] of rows) {
    const table = tables.get(text(datasetId)) ?? {
      datasetId: text(datasetId),
      schemaName: text(schemaName),
      tableName: text(tableName),
      columns: [],
    };
    tables.set(table.datasetId, table);
    if (columnName === undefined || columnName === null) continue;
    table.columns.push({
      columnName: text(columnName),
      type: text(type),
      description: description === null || description === undefined ? null : text(description),
      isKey: isKey === true,
    });
  }
  return [...tables.values()];
}

function text(value: Rendered | undefined): string {
  return String(value ?? '');
}
