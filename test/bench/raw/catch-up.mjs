/** Raw DuckDB: brings the rows of a file of JSON lines into a table of `database`. */
import { DuckDBInstance } from '@duckdb/node-api';

const [database, table, lines, keys] = process.argv.slice(2);
const instance = await DuckDBInstance.create(database);
const connection = await instance.connect();
const described = await connection.runAndReadAll(`DESCRIBE "${table}"`);
const typeOf = (type) => type.replace(/^GEOMETRY.*/, 'JSON').replace('TIMESTAMP', 'TIMESTAMPTZ');
const columns = described.getRowsJS().map(([name, type]) => `'${name}': '${typeOf(type)}'`);
await connection.run("SET TimeZone = 'UTC'");
const coordinates = `regexp_replace(geometry->>'coordinates', '\\[([^],[]+),([^],[]+)\\]', '\\1 \\2', 'g')`;
await connection.run(`CREATE TEMP TABLE net AS SELECT * REPLACE ((upper(geometry->>'type') || ' ' ||
    translate(${coordinates}, '[]', '()'))::GEOMETRY AS geometry)
  FROM read_json('${lines}', format = 'newline_delimited', columns = {${columns.join(', ')}})`);
await connection.run(`MERGE INTO "${table}" USING net USING (${keys}) WHEN MATCHED THEN UPDATE BY NAME
  WHEN NOT MATCHED THEN INSERT BY NAME`);
await connection.run('CHECKPOINT');
connection.closeSync();
instance.closeSync();
