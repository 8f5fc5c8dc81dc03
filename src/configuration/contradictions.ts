/** Values that are right by themselves and wrong together. */

import { contradictionOfCadence } from './cadence.ts';
import type { Problem } from './problems.ts';
import { type Resolution, resolvedValue } from './resolve.ts';
import type { SettingKey } from './settings.ts';

/** Judges only the settings that were resolved. */
export function contradictions(resolution: Resolution): readonly Problem[] {
  const problems: Problem[] = [];
  const blame = (key: SettingKey, trouble: string) => {
    problems.push({ subject: key, trouble, source: resolution.sources.get(key)?.source ?? null });
  };
  const written = (key: SettingKey) => resolution.sources.get(key)?.value ?? '';
  const have = (...keys: readonly SettingKey[]) => keys.every((key) => resolution.values.has(key));

  if (
    have('destination.path', 'checkpoint.path') &&
    resolvedValue(resolution, 'destination.path') === resolvedValue(resolution, 'checkpoint.path')
  ) {
    blame('checkpoint.path', 'is the same file as destination.path; give each its own');
  }
  for (const key of ['destination.path', 'checkpoint.path'] as const) {
    if (!have(key, 'destination.publish')) continue;
    if (resolvedValue(resolution, 'destination.publish') !== resolvedValue(resolution, key)) continue;
    blame('destination.publish', `is the same file as ${key}; a copy needs a file of its own`);
  }
  if (
    have('retry.baseDelay', 'retry.maxDelay') &&
    resolvedValue(resolution, 'retry.baseDelay') > resolvedValue(resolution, 'retry.maxDelay')
  ) {
    const delays = `is '${written('retry.baseDelay')}', longer than retry.maxDelay, ${written('retry.maxDelay')}`;
    blame('retry.baseDelay', delays);
  }
  const ofCadence = contradictionOfCadence(resolution);
  return ofCadence === null ? problems : [...problems, ofCadence];
}
