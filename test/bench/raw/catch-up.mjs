/** Raw DuckDB: brings the rows of files of JSON lines into tables of `database`, as `list`, a JSON file, says. */
import { readFileSync } from 'node:fs';
import { DuckDBInstance } from '@duckdb/node-api';

const [database, list] = process.argv.slice(2);
const instance = await DuckDBInstance.create(database);
const connection = await instance.connect();
const typeOf = (type) => type.replace(/^GEOMETRY.*/, 'JSON').replace('TIMESTAMP', 'TIMESTAMPTZ');
const wktOf = (name) => `(upper("${name}"->>'type') || ' ' || regexp_replace(translate(regexp_replace(
  "${name}"->>'coordinates', '\\[([^],[]+),([^],[]+)\\]', '\\1 \\2', 'g'), '[]', '()'), '^([^(].*)$', '(\\1)'))`;
await connection.run("SET TimeZone = 'UTC'");
for (const { table, keys, lines } of JSON.parse(readFileSync(list, 'utf8'))) {
  const described = (await connection.runAndReadAll(`DESCRIBE "${table}"`)).getRowsJS();
  const columns = described.map(([name, type]) => `"${name}": '${typeOf(type)}'`);
  const shapes = described.filter(([, type]) => type.startsWith('GEOMETRY'));
  const replaced = shapes.map(([name]) => `${wktOf(name)}::GEOMETRY AS "${name}"`);
  await connection.run(`CREATE OR REPLACE TEMP TABLE net AS
    SELECT * ${replaced.length > 0 ? `REPLACE (${replaced})` : ''}
    FROM read_json('${lines}', format = 'newline_delimited', columns = {${columns}})`);
  await connection.run(`MERGE INTO "${table}" USING net USING (${keys})
    WHEN MATCHED THEN UPDATE BY NAME WHEN NOT MATCHED THEN INSERT BY NAME`);
}
await connection.run('CHECKPOINT');
connection.closeSync();
instance.closeSync();
