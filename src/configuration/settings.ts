/**
 * Every setting, once: from this table come the reading of flags, variables and the file, the defaults, the help
 * text and the example file. The README beside this file says how to add one.
 */

import { localSettings } from './local-settings.ts';
import { serviceSettings } from './service-settings.ts';
import type { Setting } from './setting.ts';

export const settings = { ...serviceSettings, ...localSettings } as const;

export type SettingKey = keyof typeof settings;

/** What a setting's value is once it is read. */
export type ValueOf<Key extends SettingKey> =
  (typeof settings)[Key] extends Setting<infer Value> ? Value : never;

export const localKeys = Object.keys(localSettings) as readonly (keyof typeof localSettings)[];
export const serviceKeys = Object.keys(serviceSettings) as readonly (keyof typeof serviceSettings)[];
export const allKeys: readonly SettingKey[] = [...serviceKeys, ...localKeys];

/** The two ways to give the API key, of which a level has one. */
export type ApiKeyKey = 'service.apiKey' | 'service.apiKeyFile';

export function isApiKeyKey(key: SettingKey): key is ApiKeyKey {
  return key === 'service.apiKey' || key === 'service.apiKeyFile';
}

export function isSettingKey(name: string): name is SettingKey {
  return Object.hasOwn(settings, name);
}

/** The groups of the file: `service`, `service.contract`, `http`, … */
export const groups: ReadonlySet<string> = new Set(
  allKeys.flatMap((key) => {
    const words = key.split('.');
    return words.slice(1).map((_, index) => words.slice(0, index + 1).join('.'));
  }),
);
