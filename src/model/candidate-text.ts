/** A candidate as text, as checkpoint and destination store it: the digest of what follows, a space, and JSON. */

import { createHash } from 'node:crypto';
import type { Candidate } from './candidate.ts';

export function candidateText(candidate: Candidate): string {
  const json = JSON.stringify({ candidate }, withTypes);
  return `${digestOf(json)} ${json}`;
}

/**
 * Decodes a stored candidate. Null: the text is damaged, or another version of the program wrote it, and the content is fetched and
 * judged again. Earlier versions wrote no digest.
 */
export function candidateFromText(written: string): Candidate | null {
  const [, digest, json = written] = WITH_DIGEST.exec(written) ?? [];
  if (digest !== undefined && digest !== digestOf(json)) return null;
  try {
    return (JSON.parse(json, fromTypes) as { readonly candidate: Candidate }).candidate;
  } catch {
    return null;
  }
}

const WITH_DIGEST = /^([0-9a-f]{64}) (.*)$/s;

function digestOf(json: string): string {
  return createHash('sha256').update(json).digest('hex');
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
