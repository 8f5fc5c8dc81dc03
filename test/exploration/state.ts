/** A digest of all that decides how a history goes on, with times relative to now: equal ones go on alike. */

import { createHash } from 'node:crypto';
import type { Stores } from './client.ts';
import type { Service } from './service.ts';

/** `isShared`: an instance with another checkpoint may take over. */
export function stateDigest(service: Service, { checkpoints, mirror }: Stores, isShared: boolean): string {
  const of = plainAt(service.nowMs);
  const stored = checkpoints.map(
    ({ followed, desiredStates, absences, mentions, suspensions, failures, candidates }) =>
      of([followed, desiredStates, absences, mentions, suspensions, failures, candidates]),
  );
  const text = JSON.stringify([service.setting, service.state(), stored, of(mirror), isShared]);
  return createHash('sha1').update(text).digest('base64');
}

/** Values that JSON can say. */
function plainAt(nowMs: number): (value: unknown) => unknown {
  const plain = (value: unknown): unknown => {
    if (value instanceof Date) return value.getTime() - nowMs;
    if (value instanceof Map) return [...value].map(plain);
    if (Array.isArray(value)) return value.map(plain);
    if (typeof value === 'bigint') return String(value);
    if (value === null || typeof value !== 'object') return value;
    return Object.values(value).map(plain);
  };
  return plain;
}
