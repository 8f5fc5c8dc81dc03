/** How the setting of the schemas of tables is read. */

import { describe, expect, it } from 'vitest';
import { settings } from '../../src/configuration/schema.ts';
import { load, loadFile, loadLocal, problemsOf, REQUIRED } from '../support/configuration.ts';

const REQUIRED_FILE = `service: { baseUrl: ${REQUIRED.FEED_SYNC_BASE_URL}, apiKey: "${REQUIRED.FEED_SYNC_API_KEY}" }\n`;
const DATABASE = 'url: "postgres://a:b@db.example.com/county"';

const withDestination = (destination: string) => `${REQUIRED_FILE}destination: {${destination}}\n`;
const schemas = (yaml: string) =>
  loadFile(withDestination(`${DATABASE}, schemas: ${yaml}`)).configuration.destination.postgres?.schemas ??
  [];

describe('the setting destination.schemas', () => {
  it('reads the rules of schemas in their order', () => {
    expect(
      schemas('[{datasets: "us-*-*-parcels", schema: "{1}_{2}"}, {schema: "rest", datasets: "*"}]'),
    ).toEqual([
      { datasets: 'us-*-*-parcels', schema: '{1}_{2}' },
      { datasets: '*', schema: 'rest' },
    ]);
  });

  it('takes one schema for all tables where destination.schemas is left out', () => {
    const { destination } = loadFile(withDestination(DATABASE)).configuration;
    expect(destination.postgres?.schemas).toEqual([]);
    expect(loadFile(withDestination(`${DATABASE}, schemas: `)).configuration.destination).toEqual(
      destination,
    );
  });

  it('accepts the example of destination.schemas', () => {
    expect(schemas(settings.get('destination.schemas')?.default.example ?? '')).toHaveLength(1);
  });

  it.each([
    ['[]', 'is an empty list; write for example'],
    ['{datasets: "*", schema: "a"}', 'is a group of keys; write for example [{datasets:'],
    ['["*"]', "item 1 is the text '*'; write for example"],
    ['[{datasets: "*", schema: a}, {datasets: "*", name: a}]', 'item 2 schema is missing; write a name'],
    ['[{datasets: "*", schema: a, name: b}]', "item 1 has the unknown key 'name'; write for example"],
    ['[{schema: a}]', 'item 1 datasets is missing; write one pattern of ids in quotes'],
    ['[{datasets: "", schema: a}]', 'item 1 datasets is empty'],
    ['[{datasets: ["us-*", "fr-*"], schema: a}]', 'item 1 datasets is a list; write one pattern of ids'],
    ['[{datasets: "!us-*", schema: a}]', "item 1 datasets is '!us-*'; name datasets to leave out"],
  ])('refuses %s as the setting destination.schemas', (yaml, problem) => {
    expect(problemsOf(() => schemas(yaml)).join('\n')).toContain(`destination.schemas ${problem}`);
  });

  it.each([
    ['', 'is empty'],
    ['County', "is 'County', which no schema is called"],
    ['a-b', "is 'a-b', which no schema is called"],
    ['é', "is 'é', which no schema is called"],
    ['{0}', "is '{0}', which no schema is called"],
    ['{01}', "is '{01}', which no schema is called"],
    ['{us}', "is '{us}', which no schema is called"],
    ['{1', "is '{1', which no schema is called"],
    ['1st_{1}', "is '1st_{1}', which begins with a digit"],
    ['pg_{1}', "is 'pg_{1}', and PostgreSQL keeps names that begin with pg_ for itself"],
    ['pg_catalog', "is 'pg_catalog', and PostgreSQL keeps names"],
    ['feed_sync', "is 'feed_sync', which feed-sync or the database needs itself"],
    ['archived', "is 'archived', which feed-sync"],
    ['history', "is 'history', which feed-sync"],
    ['public', "is 'public', which feed-sync"],
    ['information_schema', "is 'information_schema', which feed-sync"],
    ['x'.repeat(51), `is '${'x'.repeat(51)}', which is too long; a name has at most 50 characters`],
    ['{2}', "has {2}, and 'us-*' has only 1 *"],
    ['{1}_{3}_{4}', "has {3}, and 'us-*' has only 1 *"],
  ])('refuses the name %s of a schema', (schema, problem) => {
    const [found = ''] = problemsOf(() => schemas(`[{datasets: "us-*", schema: "${schema}"}]`));
    expect(found).toContain(`destination.schemas item 1 schema ${problem}`);
  });

  it('refuses a place for a wildcard where the pattern has none, and counts no escaped one', () => {
    const problem = (datasets: string) =>
      problemsOf(() => schemas(`[{datasets: '${datasets}', schema: "{1}"}]`)).join('\n');
    expect(problem('us-tx')).toContain("has {1}, and 'us-tx' has no *");
    expect(problem('us-\\*')).toContain('has no *');
  });

  it('accepts names of 50 characters, names that contain a reserved one, and a place alone', () => {
    const names = ['x'.repeat(50), 'feeds', '_1', 'my_pg_{1}', 'history_{1}', '{1}', '{1}{1}'];
    const rules = names.map((name) => `{datasets: "us-*", schema: "${name}"}`).join(', ');
    expect(schemas(`[${rules}]`).map(({ schema }) => schema)).toEqual(names);
  });

  it('refuses destination.schemas for a mirror in a file, in every command', () => {
    const refused = [
      'destination.schemas is not available for a mirror in a file, whose tables are all in the schema main; leave it out, or set destination.url',
    ];
    const withoutSource = (lines: readonly string[]) => lines.map((line) => line.replace(/ \(file .*$/, ''));
    for (const path of ['', 'path: ./mirror.duckdb, ']) {
      const text = withDestination(`${path}schemas: [{datasets: "*", schema: a}]`);
      const files = { '/home/ann/feed-sync.yaml': text };
      expect(withoutSource(problemsOf(() => load({ files })))).toEqual(refused);
      expect(withoutSource(problemsOf(() => loadLocal({ files })))).toEqual(refused);
    }
  });

  it('does not call destination.schemas unavailable where the address of the database is wrong', () => {
    const text = withDestination('url: "mysql://db", schemas: [{datasets: "*", schema: a}]');
    const problems = problemsOf(() => loadFile(text));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(/^destination\.url is not the address/);
  });

  it('reads destination.schemas from the file only', () => {
    const environment = { ...REQUIRED, FEED_SYNC_DESTINATION_SCHEMAS: '[]' };
    const [problem = ''] = problemsOf(() => load({ environment }));
    expect(problem).toContain('FEED_SYNC_DESTINATION_SCHEMAS is not a known variable');
  });
});
