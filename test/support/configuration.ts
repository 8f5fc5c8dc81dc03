/** Loads configurations on a machine of the test's own making: its files, variables, memory and terminal. */

import { expect } from 'vitest';
import {
  type Inspection,
  loadConfiguration,
  loadLocalConfiguration,
} from '../../src/configuration/configuration.ts';
import type { LoadInput } from '../../src/configuration/resolve.ts';
import { ConfigurationError } from '../../src/model/errors.ts';

export const API_KEY = 'sk_test_0123456789abcdef';

export interface FakeMachine extends Partial<LoadInput> {
  /** Texts by absolute path; every other file is missing. */
  readonly files?: Readonly<Record<string, string>>;
}

/** What a run cannot do without, as variables. */
export const REQUIRED = { FEED_SYNC_BASE_URL: 'https://feed.example.com', FEED_SYNC_API_KEY: API_KEY };

export function inputOf({ files = {}, ...rest }: FakeMachine): LoadInput {
  return {
    flags: {},
    environment: REQUIRED,
    workingDirectory: '/home/ann',
    machine: { memoryBytes: 16e9, constrainedMemoryBytes: 0, heapBytes: 2e9, cores: 4 },
    stderrIsTerminal: false,
    readFile: (path) => {
      const text = files[path];
      if (text === undefined) throw systemError(path);
      return text;
    },
    ...rest,
  };
}

export function load(machine: FakeMachine) {
  return withSources(loadConfiguration(inputOf(machine)));
}

export function loadLocal(machine: FakeMachine) {
  return withSources(loadLocalConfiguration(inputOf(machine)));
}

/** The settings that are set, by their keys, with values as operators write them. */
function withSources<Loaded extends Pick<Inspection, 'settings'>>(loaded: Loaded) {
  const known = loaded.settings.filter(({ value }) => value !== null);
  return { ...loaded, sources: new Map(known.map(({ key, value, source }) => [key, { value, source }])) };
}

/** The configuration that a file makes, beside the required variables. */
export function loadFile(text: string) {
  return load({ files: { '/home/ann/feed-sync.yaml': text } });
}

/** The lines of the error, one for each problem; fails where there is none, and where the key is in it. */
export function problemsOf(attempt: () => unknown): readonly string[] {
  const error = errorOf(attempt);
  expect(error.message).not.toContain(API_KEY);
  const [heading, ...lines] = error.message.split('\n');
  expect(heading).toBe(
    `The configuration has ${lines.length === 1 ? '1 problem' : `${lines.length} problems`}:`,
  );
  return lines.map((line) => line.trimStart());
}

export function errorOf(attempt: () => unknown): ConfigurationError {
  try {
    attempt();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError);
    return error as ConfigurationError;
  }
  throw new Error('The configuration was loaded, though it should have been refused.');
}

function systemError(path: string): Error {
  return Object.assign(new Error(`ENOENT: no such file or directory, open '${path}'`), {
    code: 'ENOENT',
    errno: -2,
  });
}
