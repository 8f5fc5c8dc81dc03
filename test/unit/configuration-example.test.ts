/** The example file, the help text and the JSON Schema say what the schema says, and what they say is true. */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { exampleConfiguration, settingsHelp, settingsJsonSchema } from '../../src/configuration/help.ts';
import { allKeys, settings, variableOf } from '../../src/configuration/schema.ts';
import { API_KEY, load } from '../support/configuration.ts';

const EXAMPLE_FILE = new URL('../../config/feed-sync.example.yaml', import.meta.url);
const SCHEMA_FILE = new URL('../../config/feed-sync.schema.json', import.meta.url);

const FILE = '/home/ann/feed-sync.yaml';

/** The defaults, but for the options by which a command finds the file itself. */
const FROM_FILE = {
  ...load({}).configuration,
  placeOptions: ['--config', FILE, '--data-dir', '/home/ann/data'],
};

/** Takes every key out of its comment, as the text's first lines tell people to. */
function uncommented(text: string): string {
  return text.replace(/^( *)#(?=\w)/gm, '$1');
}

describe('the example', () => {
  it('the example is the file beside the documentation', () => {
    expect(readFileSync(EXAMPLE_FILE, 'utf8')).toBe(exampleConfiguration());
  });

  it('the example changes nothing as it is', () => {
    const files = { [FILE]: exampleConfiguration() };
    expect(load({ files }).configuration).toEqual(FROM_FILE);
  });

  it('the example has the defaults for values, with every key out of its comment', () => {
    const files = {
      [FILE]: uncommented(exampleConfiguration()),
      '/etc/feed-sync/api-key': API_KEY,
    };
    const { configuration, sources } = load({ files, environment: {} });
    expect(configuration).toEqual(FROM_FILE);
    const fromFile = [...sources].filter(([, { source }]) => source.startsWith('file '));
    expect(fromFile.map(([key]) => key)).toEqual(
      expect.arrayContaining(['service.baseUrl', 'retry.maxDelay']),
    );
  });

  it('the example has every key once, its variable and its meaning, on lines that fit a screen', () => {
    const lines = exampleConfiguration().split('\n');
    expect(lines.filter((line) => /^ *#\w/.test(line))).toHaveLength(allKeys.length);
    for (const { variable, description } of settings.values()) {
      const described = lines.findIndex((line) => line.trim() === `# ${description}`);
      expect(lines[described + 1]?.trim()).toContain(`# ${variable ?? 'In the file only'}.`);
    }
    expect(lines.filter((line) => line.length > 125)).toEqual([]);
  });

  it('the example gives values that are valid', () => {
    const text = uncommented(exampleConfiguration()).replace(
      /(For example: )(.+)(\n *\w+:)$/gm,
      (_match, label: string, example: string, key: string) => `${label}${example}${key} ${example}`,
    );
    const files = {
      '/home/ann/feed-sync.yaml': text
        .replace(/^ *apiKeyFile:.*$/m, '')
        .replace(/^ *every: 1m$/m, '')
        .replace(/^ *urlFile:.*$/gm, '')
        .replace(/^ *url:.*$/gm, '')
        // Of a database alone; the test of that setting reads its example.
        .replace(/^ *schemas:.*$/m, '')
        .replace('"the key"\n  apiKey: "the key"', '\n  apiKey: k'),
    };
    const { configuration } = load({ files, environment: {} });
    expect(configuration.subscriptions).toEqual(['sub_1', 'Texas parcels']);
    expect(configuration.datasets).toEqual({ include: ['us-tx-*'], exclude: ['*-permits'] });
    expect(configuration.service.contract.newerThanParameter).toBe('since');
    expect(configuration.poll).toEqual({ kind: 'schedule', schedule: '0 6 * * *' });
    expect(configuration.downloads.allowedOrigins).toEqual(['https://files.example.com']);
  });
});

interface JsonSchema {
  readonly type: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: unknown;
}

describe('the JSON Schema', () => {
  const json: JsonSchema = JSON.parse(settingsJsonSchema());
  const validator = z.fromJSONSchema(JSON.parse(settingsJsonSchema()));
  const judge = (yaml: string) => validator.safeParse(parse(yaml));

  /** Every property, groups included, by its path. */
  function propertiesOf(group: JsonSchema, prefix = ''): readonly (readonly [string, JsonSchema])[] {
    return Object.entries(group.properties ?? {}).flatMap(([name, property]) => [
      [`${prefix}${name}`, property] as const,
      ...propertiesOf(property, `${prefix}${name}.`),
    ]);
  }

  it('the JSON Schema is the file beside the example, whose first line names it', () => {
    expect(readFileSync(SCHEMA_FILE, 'utf8')).toBe(settingsJsonSchema());
    const [first] = exampleConfiguration().split('\n');
    expect(first).toBe('# yaml-language-server: $schema=./feed-sync.schema.json');
  });

  it('the JSON Schema is of the draft 2020-12, and accepts the example with and without its comments', () => {
    expect(json).toHaveProperty('$schema', 'https://json-schema.org/draft/2020-12/schema');
    expect(judge(exampleConfiguration()).success).toBe(true);
    expect(judge(uncommented(exampleConfiguration())).error).toBeUndefined();
  });

  it('the JSON Schema has the type and description of every setting, and refuses unknown keys in every group', () => {
    const properties = propertiesOf(json);
    const leaves = properties.filter(([, { properties }]) => properties === undefined);
    expect(leaves.map(([key]) => key)).toEqual(allKeys);
    const described = new Map(
      [...settings.values()].map(({ key, description }) => [String(key), description]),
    );
    for (const [key, { type, description }] of leaves) {
      expect(type, key).toEqual(expect.arrayContaining([expect.any(String), 'null']));
      expect(description).toBe(described.get(key));
    }
    const all = [json, ...properties.map(([, property]) => property)];
    const groups = all.filter(({ properties }) => properties !== undefined);
    expect(groups.map(({ additionalProperties }) => additionalProperties)).toEqual(groups.map(() => false));
  });

  it.each([
    'dataDri: kept',
    'http: { timout: 5s }',
    'http: { timeout: 5 }',
    'http: { timeout: "5" }',
    'http: { connections: 1 }',
    'log: { level: loud }',
    'subscriptions: sub_1',
    'subscriptions: []',
    'disk: { reserve: 5 apples }',
  ])('the JSON Schema refuses %s, as the program does', (yaml) => {
    expect(judge(yaml).success).toBe(false);
    expect(() => load({ files: { '/home/ann/feed-sync.yaml': yaml } })).toThrow(
      'The configuration has 1 problem',
    );
  });

  it.each([
    'http: { timeout: 5s, connections: 4 }',
    'hooks: { afterCommit: dbt run }',
    'hooks: { afterCommit: [dbt, run] }',
    'disk: { reserve: 1.5gb }',
    'retry:',
  ])('the JSON Schema accepts %s, as the program does', (yaml) => {
    expect(judge(yaml).error).toBeUndefined();
    expect(load({ files: { '/home/ann/feed-sync.yaml': yaml } }).filePath).not.toBeNull();
  });
});

describe('the help', () => {
  it('the help names key, variable, flag, default and meaning', () => {
    expect(settingsHelp()).toContain(
      [
        '  http.timeout  FEED_SYNC_HTTP_TIMEOUT  --http-timeout <duration>',
        '      The longest silence of a connection to the service. Default: 30s.',
      ].join('\n'),
    );
    expect(settingsHelp()).toContain('  service.apiKeyFile  FEED_SYNC_API_KEY_FILE\n');
  });

  it('the help has every setting', () => {
    const lines = settingsHelp().split('\n');
    for (const { key, variable, description } of settings.values()) {
      const named = lines.findIndex((line) => line.startsWith(`  ${key}  ${variable ?? 'in the file only'}`));
      expect(lines[named + 1]).toContain(description);
    }
  });
});

describe('the names of variables', () => {
  it('names variables after the keys without service and contract, each once', () => {
    const variables = allKeys.map(variableOf);
    expect(new Set(variables).size).toBe(allKeys.length);
    expect(variables.slice(0, 5)).toEqual([
      'FEED_SYNC_BASE_URL',
      'FEED_SYNC_API_KEY_FILE',
      'FEED_SYNC_API_KEY',
      'FEED_SYNC_MANIFEST_PATH',
      'FEED_SYNC_NEWER_THAN_PARAMETER',
    ]);
  });
});
