/** Describes the settings for users and editors: help texts, the example file and its JSON Schema. */

import { parse } from 'yaml';
import { z } from 'zod';
import { groups, type Setting, type SettingKey, schema, settings } from './schema.ts';

/** Returns the settings as text for `--help`: three lines for each, without colours. */
export function settingsHelp(): string {
  const entries = [...settings.values()].map((setting) => {
    const { key, variable, flag, placeholder, description } = setting;
    const names = [
      key,
      variable ?? 'in the file only',
      ...(flag === null ? [] : [`${flag} <${placeholder}>`]),
    ];
    return `  ${names.join('  ')}\n      ${description} ${defaultSentence(setting)}`;
  });
  return `${entries.join('\n')}\n`;
}

function defaultSentence({ default: { words } }: Setting): string {
  return words === null ? 'Required.' : `Default: ${words}.`;
}

/** The schema lies beside the file. */
const SCHEMA_FILE = 'feed-sync.schema.json';

const OPENING = `# yaml-language-server: $schema=./${SCHEMA_FILE}
# An editor checks this file once its schema lies beside it: feed-sync settings --json-schema > ${SCHEMA_FILE}
#
# The configuration of feed-sync. A run needs two values: service.baseUrl and the API key.
#
# A line that starts with # and a space explains; take the # away from a key to set it. A key without a value keeps
# its default. A key can also be given as the variable beside it and, but for the API key, as a flag
# (http.timeout is --http-timeout). A flag is stronger than a variable, a variable than this file.
#
# Durations are written 500ms, 30s, 5m, 2h; sizes 512MB, 4GB. A relative path starts at the folder of this file.
# Lists are written ["one", "two"], in a variable one,two.`;

/** Returns an example file. Its values, with every key uncommented, are the defaults; the required keys have example values. */
export function exampleConfiguration(): string {
  const lines = [OPENING];
  let openGroups: readonly string[] = [];
  for (const setting of settings.values()) {
    const parents = groupsOf(setting.key);
    const newGroups = parents.filter((group) => !openGroups.includes(group));
    lines.push(
      '',
      ...newGroups.map((group) => `${indentOf(group)}${lastWordOf(group)}:`),
      ...linesOf(setting),
    );
    openGroups = parents;
  }
  return `${lines.join('\n')}\n`;
}

function linesOf(setting: Setting): readonly string[] {
  const { key, variable, description } = setting;
  const { words, text, example } = setting.default;
  const indent = indentOf(key);
  const value = words === null ? example : text;
  const more = words === null || example === null ? '' : ` For example: ${example}`;
  return [
    `${indent}# ${description}`,
    `${indent}# ${variable ?? 'In the file only'}. ${defaultSentence(setting)}${more}`,
    `${indent}#${lastWordOf(key)}:${typeof value === 'string' ? ` ${value}` : ''}`,
  ];
}

/** `service.contract.manifestPath` → `service`, `service.contract`. */
function groupsOf(key: SettingKey): readonly string[] {
  return [...groups].filter((group) => key.startsWith(`${group}.`));
}

function indentOf(name: string): string {
  return '  '.repeat(name.split('.').length - 1);
}

function lastWordOf(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

/** Returns a JSON Schema (draft 2020-12) of the file, for editors. */
export function settingsJsonSchema(): string {
  const json = z.toJSONSchema(schema, { target: 'draft-2020-12', io: 'input' });
  return `${JSON.stringify({ ...ofFile(json as JsonSchema, ''), type: 'object' }, null, 2)}\n`;
}

/** The parts of a JSON Schema that differ for the file. */
interface JsonSchema {
  readonly type: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: unknown;
}

/** In the file every key may be missing, or have no value. */
function ofFile({ required: _, ...json }: JsonSchema, name: string): JsonSchema {
  const nullable = { ...json, type: [json.type, 'null'].flat() };
  if (json.enum !== undefined) return { ...nullable, ...notesOf(name), enum: [...json.enum, null] };
  if (json.properties === undefined) return { ...nullable, ...notesOf(name) };
  const members = Object.entries(json.properties).map(([word, member]) => {
    return [word, ofFile(member, name === '' ? word : `${name}.${word}`)] as const;
  });
  return { ...nullable, properties: Object.fromEntries(members) };
}

function notesOf(name: string) {
  const { text = null, example = null } = settings.get(name as SettingKey)?.default ?? {};
  return {
    ...(typeof text === 'string' ? { default: parse(text) } : {}),
    ...(example === null ? {} : { examples: [parse(example)] }),
  };
}
