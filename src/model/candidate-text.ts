/** A candidate as text, as checkpoint and destination store it. */

import type { Candidate } from './candidate.ts';

export function candidateText(candidate: Candidate): string {
  return JSON.stringify({ candidate }, withTypes);
}

/** Decodes a stored candidate. Null: another version of the program wrote it, and its content is fetched and judged again. */
export function candidateFromText(written: string): Candidate | null {
  try {
    return (JSON.parse(written, fromTypes) as { readonly candidate: Candidate }).candidate;
  } catch {
    return null;
  }
}

/** JSON has neither times nor maps nor numbers of 64 bits. A time is a text before a replacer sees it, but not in its object. */
function withTypes(this: unknown, key: string, value: unknown): unknown {
  const original = (this as Record<string, unknown>)[key];
  if (original instanceof Date) return { $time: original.toISOString() };
  if (original instanceof Map) return { $map: [...original] };
  if (typeof original === 'bigint') return { $integer: String(original) };
  return value;
}

function fromTypes(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if ('$time' in value) return new Date(String(value.$time));
  if ('$map' in value) return new Map(value.$map as readonly [unknown, unknown][]);
  return '$integer' in value ? BigInt(String(value.$integer)) : value;
}
