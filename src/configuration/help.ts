/** What people and editors are told about the settings: help texts, the example file and its JSON Schema. */

import { parse } from 'yaml';
import { z } from 'zod';
import {
  type Default,
  flagOf,
  groups,
  hasFlag,
  type Setting,
  type SettingKey,
  schema,
  settings,
  variableOf,
} from './schema.ts';

interface SettingHelp {
  readonly key: SettingKey;
  readonly variable: string;
  /** `--http-timeout`; null where there is none. */
  readonly flag: string | null;
  /** What stands for a value: `duration`. */
  readonly placeholder: string;
  /** The default, in words where no text stands for it; null where the setting is required. */
  readonly defaultWords: string | null;
  readonly description: string;
}

/** Every setting, in the order of the example file. */
export function describeSettings(): readonly SettingHelp[] {
  return [...settings.values()].map(({ key, schema, default: fallback }) => {
    const { title = '', description = '' } = schema.meta() ?? {};
    return {
      key,
      variable: variableOf(key),
      flag: hasFlag(key) ? flagOf(key) : null,
      placeholder: title,
      defaultWords: wordsOf(fallback),
      description,
    };
  });
}

/** The settings as text for `--help`: three lines for each, without colours. */
export function settingsHelp(): string {
  const entries = describeSettings().map(
    ({ key, variable, flag, placeholder, defaultWords, description }) => {
      const names = [key, variable, ...(flag === null ? [] : [`${flag} <${placeholder}>`])];
      const state = defaultWords === null ? 'Required.' : `Default: ${defaultWords}.`;
      return `  ${names.join('  ')}\n      ${description} ${state}`;
    },
  );
  return `${entries.join('\n')}\n`;
}

function wordsOf(fallback: Default): string | null {
  if (fallback.kind === 'required') return null;
  return fallback.kind === 'written' ? fallback.text : fallback.words;
}

/** The schema lies beside the file. */
const SCHEMA_FILE = 'feed-sync.schema.json';

const OPENING = `# yaml-language-server: $schema=./${SCHEMA_FILE}
# An editor checks this file once its schema lies beside it: feed-sync settings --json-schema > ${SCHEMA_FILE}
#
# The configuration of feed-sync. A run needs two values: service.baseUrl and the API key.
#
# A line that starts with # and a space explains; take the # away from a key to set it. A key without a value keeps
# its default. Each key can also be given as the variable beside it, and each but the API key as a flag
# (http.timeout is --http-timeout). A flag is stronger than a variable, a variable than this file.
#
# Durations are written 500ms, 30s, 5m, 2h; sizes 512MB, 4GB. A relative path starts at the folder of this file.
# Lists are written ["one", "two"], in a variable one,two.`;

/** Its values, with every key taken out of its comment, are the defaults; the required ones have example values. */
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

function linesOf({ key, schema, default: fallback }: Setting): readonly string[] {
  const indent = indentOf(key);
  const value = valueIn(fallback);
  return [
    `${indent}# ${schema.meta()?.description}`,
    `${indent}# ${variableOf(key)}. ${defaultSentence(fallback)}`,
    `${indent}#${lastWordOf(key)}:${value === '' ? '' : ` ${value}`}`,
  ];
}

function valueIn(fallback: Default): string {
  if (fallback.kind === 'required') return fallback.example;
  return fallback.kind === 'written' ? fallback.text : '';
}

function defaultSentence(fallback: Default): string {
  switch (fallback.kind) {
    case 'required':
      return 'Required.';
    case 'written':
      return `Default: ${fallback.text}.`;
    case 'derived':
      return `Default: ${fallback.words}.`;
    case 'absent':
      return `Default: ${fallback.words}. For example: ${fallback.example}`;
  }
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

/** A JSON Schema (draft 2020-12) of the file, for editors. */
export function settingsJsonSchema(): string {
  const json = z.toJSONSchema(schema, { target: 'draft-2020-12', io: 'input' });
  return `${JSON.stringify({ ...ofFile(json as JsonSchema, ''), type: 'object' }, null, 2)}\n`;
}

/** The parts of a JSON Schema that are changed for the file. */
interface JsonSchema {
  readonly type: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: unknown;
}

/** In the file every key may be missing, or be there without a value. */
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
  const fallback = settings.get(name as SettingKey)?.default;
  if (fallback === undefined || fallback.kind === 'derived') return {};
  if (fallback.kind === 'written') return { default: parse(fallback.text) };
  return { examples: [parse(fallback.example)] };
}
