/** What a command sees of the mirror that works without it too: trouble with it is a finding, not an end. */

import type { LocalConfiguration } from '../configuration/configuration.ts';
import type { Held } from '../destination/destination.ts';
import { openReader } from '../destination/duckdb/reading/reader.ts';
import { BusyError, ConfigurationError, StorageError } from '../model/errors.ts';
import type { Context } from './context.ts';

/** What the mirror has; null where there is none; 'busy' where it was not looked at yet; an error where it cannot be. */
export type MirrorSeen = MirrorHeld | null | 'busy' | Error;

export interface MirrorHeld extends Held {
  /** Bytes of its file that hold nothing; null where nobody has looked. */
  readonly freeBytes: number | null;
}

/** A person who asks how things are does not want to wait for the mirror as long as a write does. */
const MAX_WAIT_MS = 5_000;

export async function seeMirror(
  configuration: LocalConfiguration,
  { clock, random, signal }: Context,
): Promise<MirrorSeen> {
  try {
    const { path } = configuration.destination;
    const waitMs = Math.min(configuration.lock.waitMs, MAX_WAIT_MS);
    const reader = await openReader({ path, waitMs, ...configuration.duckdb, clock, random, signal });
    if (reader === null) return null;
    try {
      return { ...(await reader.held()), freeBytes: await reader.freeBytes() };
    } finally {
      await reader.close();
    }
  } catch (error) {
    const isFinding =
      error instanceof BusyError || error instanceof StorageError || error instanceof ConfigurationError;
    if (isFinding) return error;
    throw error;
  }
}

/** Null where it is not known. */
export function tablesOf(mirror: MirrorSeen): Held['datasets'] | null {
  if (mirror === null) return new Map();
  return mirror === 'busy' || mirror instanceof Error ? null : mirror.datasets;
}
