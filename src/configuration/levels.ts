/**
 * Where the value of a setting can stand: flags, the environment, the file. Each level answers what it has for a
 * key; which of them counts is decided by their order, in resolve.ts.
 */

import { dirname } from 'node:path';
import { distance } from 'fastest-levenshtein';
import type { Kind, Reading } from './kinds.ts';
import type { FileEntry } from './locate.ts';
import type { Problem } from './problems.ts';
import { allKeys, isApiKeyKey, type SettingKey } from './settings.ts';

/** A value as it stands somewhere, not read yet. */
export interface Found {
  readonly raw: { readonly text: string } | { readonly yaml: unknown };
  /** `flag --log-level`, `environment FEED_SYNC_LOG_LEVEL`, `file /etc/feed-sync/feed-sync.yaml:4`. */
  readonly source: string;
  /** Where a relative path starts. */
  readonly directory: string;
}

export type Level = (key: SettingKey) => Found | null;

export type Flags = Readonly<Record<string, string | undefined>>;
export type Environment = Readonly<Record<string, string | undefined>>;

/** Flags by their names (`--log-level`). */
export function flagLevel(flags: Flags, workingDirectory: string): Level {
  return (key) => {
    const text = hasFlag(key) ? flags[flagOf(key)] : undefined;
    return text === undefined
      ? null
      : { raw: { text }, source: `flag ${flagOf(key)}`, directory: workingDirectory };
  };
}

/** Whether a setting can be given on the command line. The API key cannot: everybody on the machine would see it. */
export function hasFlag(key: SettingKey): boolean {
  return !isApiKeyKey(key);
}

/** A variable that is empty counts as not set: that is how compose files and units write "none". */
export function environmentLevel(environment: Environment, workingDirectory: string): Level {
  return (key) => {
    const text = environment[variableOf(key)] ?? '';
    return text.trim() === ''
      ? null
      : { raw: { text }, source: `environment ${variableOf(key)}`, directory: workingDirectory };
  };
}

/** Relative paths in a file start at the file's folder, so that it means the same wherever the program is started. */
export function fileLevel(entries: ReadonlyMap<SettingKey, FileEntry>, path: string): Level {
  return (key) => {
    const entry = entries.get(key);
    return entry === undefined
      ? null
      : { raw: { yaml: entry.value }, source: `file ${path}:${entry.line}`, directory: dirname(path) };
  };
}

/** Reads what was found as a value of its kind. */
export function readFound<Value>(kind: Kind<Value>, { raw, directory }: Found): Reading<Value> {
  if ('yaml' in raw) return kind.readYaml(raw.yaml, directory);
  const text = raw.text.trim();
  return text === '' ? { fault: 'is empty' } : kind.readText(text, directory);
}

/**
 * What Kubernetes adds to every container of a namespace with a Service named feed-sync or feed-sync-…:
 * `FEED_SYNC_SERVICE_HOST`, `FEED_SYNC_PORT_9464_TCP_ADDR`. Nobody wrote these, so they are no mistake.
 */
const KUBERNETES_VARIABLE =
  /^FEED_SYNC_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/;

/** The variables that look like ours and are not. */
export function unknownVariables(environment: Environment): readonly Problem[] {
  const known = [...allKeys.map(variableOf), FILE_VARIABLE];
  return Object.keys(environment)
    .filter((name) => name.startsWith(VARIABLE_PREFIX) && !known.includes(name))
    .filter((name) => !KUBERNETES_VARIABLE.test(name))
    .map((name) => ({
      subject: name,
      fault: `is not a known variable${formatNearest(name, known)}`,
      source: 'environment',
    }));
}

const VARIABLE_PREFIX = 'FEED_SYNC_';
/** Names the file itself, so it has no key. */
export const FILE_VARIABLE = `${VARIABLE_PREFIX}CONFIG`;
export const FILE_FLAG = '--config';

/** `service.contract.manifestPath` → `FEED_SYNC_MANIFEST_PATH`: upper snake case, without SERVICE_ and CONTRACT_. */
export function variableOf(key: string): string {
  const words = key.replace(/^service\.(contract\.)?/, '').replace(/[A-Z]/g, (letter) => `_${letter}`);
  return VARIABLE_PREFIX + words.replaceAll('.', '_').toUpperCase();
}

/** `http.timeout` → `--http-timeout`: the variable's words. */
export function flagOf(key: string): string {
  return `--${variableOf(key).slice(VARIABLE_PREFIX.length).toLowerCase().replaceAll('_', '-')}`;
}

/**
 * The known name that is most like `name`; null where none is even half like it. Two mistakes are common and count as
 * small whatever their length: the right last word in the wrong group (`timeout` means `http.timeout` rather than a
 * key of seven other letters), and a word too many at the end (`FEED_SYNC_CONFIG_FILE`).
 */
export function nearest(name: string, known: readonly string[]): string | null {
  const scores = known.map((candidate) => ({ candidate, ...unlikeness(name, candidate) }));
  const [best] = scores.toSorted((left, right) => left.least - right.least || left.whole - right.whole);
  if (best === undefined) return null;
  return best.least * 2 <= Math.max(name.length, best.candidate.length) ? best.candidate : null;
}

/** `; the nearest is http.timeout`, to be put after what is said of an unknown name; empty where none is like it. */
export function formatNearest(name: string, known: readonly string[]): string {
  const candidate = nearest(name, known);
  return candidate === null ? '' : `; the nearest is ${candidate}`;
}

const COMMON_MISTAKE_COST = 1;

function unlikeness(name: string, candidate: string): { readonly least: number; readonly whole: number } {
  const [left, right] = [name.toLowerCase(), candidate.toLowerCase()];
  const whole = distance(left, right);
  const last = distance(lastWord(left), lastWord(right));
  const costs = [whole];
  if (last * 2 < lastWord(left).length) costs.push(last + COMMON_MISTAKE_COST);
  if (left.startsWith(right)) costs.push(COMMON_MISTAKE_COST);
  return { whole, least: Math.min(...costs) };
}

function lastWord(name: string): string {
  return name.split(/[._]/).at(-1) ?? name;
}
