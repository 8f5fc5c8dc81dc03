/** The file of sources for dbt: its content, and that dbt evaluates no text of the service. */

import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { type DbtOptions, dbtSources } from '../../src/cli/render/dbt-sources.ts';
import type { DescribedTable } from '../../src/destination/catalog/described-tables.ts';
import { at, listAt } from '../support/deployment-files.ts';

const DAY_MS = 86_400_000;
const OPTIONS: DbtOptions = { source: 'feed', database: null, warnAfterMs: 30 * DAY_MS, errorAfterMs: null };

function table(changed: Partial<DescribedTable> = {}): DescribedTable {
  return {
    datasetId: 'us-x-parcels',
    schemaName: 'main',
    tableName: 'us_x_parcels',
    columns: [column('id', true), column('owner')],
    ...changed,
  };
}

function column(columnName: string, isKey = false, description: string | null = null) {
  return { columnName, type: 'string', description, isKey };
}

function sourcesOf(tables: readonly DescribedTable[], options = OPTIONS): unknown {
  return parse(dbtSources(tables, [], options).text);
}

describe('the dbt sources', () => {
  it('lists a table for each dataset, and those of the catalog', () => {
    const sources = listAt(sourcesOf([table()]), 'sources');
    expect(sources.map((source) => [at(source, 'name'), at(source, 'schema')])).toEqual([
      ['feed', 'main'],
      ['feed_sync', 'feed_sync'],
    ]);
    expect(listAt(sources[0], 'tables')).toMatchObject([
      { name: 'us_x_parcels', config: { meta: { dataset_id: 'us-x-parcels' } } },
    ]);
  });

  it('writes one source for each schema where the tables are in several', () => {
    const tables = [table(), table({ datasetId: 'b', tableName: 'b', schemaName: 'texas' })];
    const names = listAt(sourcesOf(tables), 'sources').map((source) => at(source, 'name'));
    expect(names).toEqual(['feed_main', 'feed_texas', 'feed_sync']);
  });

  it('lists the unions in their own schema where the tables are all in others', () => {
    const union = { name: 'parcels', globs: ['*'], form: 1, members: 1, parts: 1, unusable: [], leftOut: [] };
    const { text } = dbtSources([table({ schemaName: 'texas' })], [union], OPTIONS);
    const sources = listAt(parse(text), 'sources');
    expect(sources.map((source) => at(source, 'schema'))).toEqual(['texas', 'feeds', 'feed_sync']);
    expect(listAt(sources[1], 'tables')).toMatchObject([{ name: 'parcels' }]);
  });

  it('tests a key of one column on that column, and a key of several columns on all of them together', () => {
    const tables = [
      table(),
      table({ datasetId: 'b', columns: [column('book', true), column('page', true)] }),
    ];
    const [one, two] = listAt(sourcesOf(tables), 'sources.0.tables');
    expect(at(one, 'columns.0.data_tests')).toEqual(['not_null', 'unique']);
    expect(at(two, 'columns.1.data_tests')).toEqual(['not_null']);
    expect(at(two, 'data_tests')).toEqual([
      { unique: { arguments: { column_name: 'row("book", "page")' } } },
    ]);
  });

  it('takes the age of a table from the catalog, in the largest unit that states the limit exactly', () => {
    const options = {
      source: 'feed',
      database: 'counties',
      warnAfterMs: 36 * 3_600_000,
      errorAfterMs: 60 * DAY_MS,
    };
    const sources = sourcesOf([table({ datasetId: "it's" })], options);
    expect(listAt(sources, 'sources').map((source) => at(source, 'database'))).toEqual([
      'counties',
      'counties',
    ]);
    const config = at(sources, 'sources.0.tables.0.config');
    expect(config).toMatchObject({
      loaded_at_query: "select max(applied_at) from feed_sync.datasets where dataset_id = 'it''s'",
      freshness: { warn_after: { count: 36, period: 'hour' }, error_after: { count: 60, period: 'day' } },
    });
  });

  it('states no freshness where none is configured', () => {
    const config = at(sourcesOf([table()], { ...OPTIONS, warnAfterMs: null }), 'sources.0.tables.0.config');
    expect(config).toEqual({ meta: { dataset_id: 'us-x-parcels' } });
  });

  it('leaves no Jinja in a text, and leaves out columns whose names dbt cannot write', () => {
    const columns = [
      column('id', true, 'Of {{ env_var("SECRET") }} and {% set x %} and {# y #}'),
      column('{{ owner }}'),
      column('a "quoted" name'),
      column('two\nlines'),
    ];
    const { text, leftOut } = dbtSources([table({ datasetId: '{{ x }}', columns })], [], OPTIONS);
    expect(text).not.toMatch(/\{[{%#]/);
    expect(listAt(parse(text), 'sources.0.tables.0.columns').map((each) => at(each, 'name'))).toEqual(['id']);
    expect(leftOut).toHaveLength(3);
  });
});
