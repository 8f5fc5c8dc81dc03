/** The syncs in a recording: within which durable effect each came, and which are the program's own, not those of a database. Pure. */

import type { NamedEffect } from '../support/durable-names.ts';
import type { Effect } from './effects.ts';

/** A sync of the program, wherever it came in the recording. */
export interface SyncSite {
  /** `destination.publish, folder 1`: the durable effect, what is synced, and the how manieth sync of such it is within the effect. */
  readonly name: string;
  /** The places of its syncs among the effects. */
  readonly places: readonly number[];
}

/** What is said when a command of the recording has ended by itself, or was killed. */
export const COMMAND_ENDED = 'the command has ended\n';
export const COMMAND_KILLED = 'the command was killed\n';
/** What is said when the disk has damaged a store whose content need not be there any more. */
export const REPORTS_LOST = 'what was reported is lost\n';

/** The functions that sync, and the two effects that sync by themselves. */
const SYNCING = [
  'makeDirectory',
  'replaceFile',
  'createFile',
  'renameFile',
  'cutFile',
  'settleFile',
  'syncFile',
];
const SYNCING_EFFECTS = ['destination.sync-entries', 'destination.publish-copy'];

/** Returns the names of the durable effects that sync a file or a folder by themselves, as the sources say. */
export function ownSyncs(effects: readonly NamedEffect[]): readonly string[] {
  const own = effects.filter(
    ({ by, name }) => SYNCING.includes(by) || SYNCING_EFFECTS.includes(name) || isRename(by, name),
  );
  return [...new Set(own.map(({ name }) => name))].sort();
}

/** Of the files of a quarantined store, whose effects are named where the store is described. */
function isRename(by: string, name: string): boolean {
  return by === 'effect' && name.includes('.quarantine');
}

/** Returns each sync within the durable effects of these names. */
export function syncSites(
  effects: readonly Effect[],
  rootInode: string,
  names: readonly string[],
): readonly SyncSite[] {
  const folders = new Set([rootInode]);
  const within = effectsWithin(effects);
  const places = new Map<string, number[]>();
  const counts = new Map<Within, { files: number; folders: number }>();
  for (const [place, effect] of effects.entries()) {
    noteKind(folders, effect);
    const open = within[place] ?? null;
    if (effect.kind !== 'sync' || open === null || !names.includes(open.name)) continue;
    const count = counts.get(open) ?? { files: 0, folders: 0 };
    counts.set(open, count);
    const what = folders.has(effect.inode) ? 'folders' : 'files';
    count[what] += 1;
    // An effect that has failed is taken for one that goes on, so that syncs of a database after it seem to be within it.
    if (count.files > 1) continue;
    const name = `${open.name}, ${what.slice(0, -1)} ${count[what]}`;
    places.set(name, [...(places.get(name) ?? []), place]);
  }
  return [...places].map(([name, found]) => ({ name, places: found })).sort(byName);
}

/** An inode may be that of a folder now and of a file later. */
function noteKind(folders: Set<string>, effect: Effect): void {
  if (effect.kind === 'mkdir') folders.add(effect.inode);
  if (effect.kind === 'create') folders.delete(effect.inode);
}

function byName(one: SyncSite, other: SyncSite): number {
  return one.name < other.name ? -1 : 1;
}

interface Within {
  readonly name: string;
}

/**
 * Returns the durable effect within which each effect came. An effect that has failed is never said to have ended; others that begin and
 * end meanwhile show that.
 */
function effectsWithin(effects: readonly Effect[]): readonly (Within | null)[] {
  let open: readonly Within[] = [];
  let last: Within | null = null;
  return effects.map((effect) => {
    if (effect.kind === 'say') {
      const before = open;
      open = openAfter(open, effect.text);
      if (open.length > before.length) last = open.at(-1) ?? null;
    }
    const newest = open.at(-1) ?? null;
    return newest === last ? newest : null;
  });
}

function openAfter(open: readonly Within[], text: string): readonly Within[] {
  if ([COMMAND_ENDED, COMMAND_KILLED].includes(text)) return [];
  const [, when, name] = /^(before|after) ([\w-]+\.[\w-]+)\n$/.exec(text) ?? [];
  if (name === undefined) return open;
  if (when === 'before') return [...open, { name }];
  const ended = open.findLastIndex((one) => one.name === name);
  return open.filter((_, index) => index !== ended);
}
