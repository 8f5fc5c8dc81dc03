/** The example file and the help text say what the table says, and what they say is true. */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { describeSettings, exampleConfiguration, settingsHelp } from '../../src/configuration/help.ts';
import { variableOf } from '../../src/configuration/levels.ts';
import { allKeys } from '../../src/configuration/settings.ts';
import { API_KEY, load } from '../support/configuration.ts';

const EXAMPLE_FILE = new URL('../../config/feed-sync.example.yaml', import.meta.url);

/** Takes every key out of its comment, as the text's first lines tell people to. */
function uncommented(text: string): string {
  return text.replace(/^( *)#(?=\w)/gm, '$1');
}

describe('the example', () => {
  it('is the file beside the documentation', () => {
    expect(readFileSync(EXAMPLE_FILE, 'utf8')).toBe(exampleConfiguration());
  });

  it('changes nothing as it is', () => {
    const files = { '/home/ann/feed-sync.yaml': exampleConfiguration() };
    expect(load({ files }).configuration).toEqual(load({}).configuration);
  });

  it('has the defaults for values, with every key out of its comment', () => {
    const files = {
      '/home/ann/feed-sync.yaml': uncommented(exampleConfiguration()),
      '/etc/feed-sync/api-key': API_KEY,
    };
    const { configuration, sources } = load({ files, environment: {} });
    expect(configuration).toEqual(load({}).configuration);
    const fromFile = [...sources].filter(([, { source }]) => source.startsWith('file '));
    expect(fromFile.map(([key]) => key)).toEqual(
      expect.arrayContaining(['service.baseUrl', 'retry.maxDelay']),
    );
  });

  it('has every key once, its variable and what it means, on lines that fit a screen', () => {
    const lines = exampleConfiguration().split('\n');
    expect(lines.filter((line) => /^ *#\w/.test(line))).toHaveLength(allKeys.length);
    for (const { variable, description } of describeSettings()) {
      const named = lines.findIndex((line) => line.trim().startsWith(`# ${variable}.`));
      expect(lines[named - 1]?.trim()).toBe(`# ${description}`);
    }
    expect(lines.filter((line) => line.length > 125)).toEqual([]);
  });

  it('gives examples that are valid', () => {
    const text = uncommented(exampleConfiguration()).replace(
      /(For example: )(.+)(\n *\w+:)$/gm,
      (_match, label: string, example: string, key: string) => `${label}${example}${key} ${example}`,
    );
    const files = {
      '/home/ann/feed-sync.yaml': text
        .replace(/^ *apiKeyFile:.*$/m, '')
        .replace(/^ *every: 1m$/m, '')
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

describe('the help', () => {
  it('names key, variable, flag, default and meaning', () => {
    expect(settingsHelp()).toContain(
      [
        '  http.timeout  FEED_SYNC_HTTP_TIMEOUT  --http-timeout <duration>',
        '      The longest silence of a connection to the service. Default: 30s.',
      ].join('\n'),
    );
    expect(settingsHelp()).toContain('  service.apiKeyFile  FEED_SYNC_API_KEY_FILE\n');
  });

  it('has every setting', () => {
    expect(describeSettings().map(({ key }) => key)).toEqual(allKeys);
  });
});

describe('the names of variables', () => {
  it('are the keys without service and contract, and each is used once', () => {
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
