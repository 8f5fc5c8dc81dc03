/**
 * A disk that loses what was not synced when the power fails. Pure.
 *
 * What a sync of a file promises is its content and length, and of a folder its entries: a new, renamed or removed file has
 * its old name, or none, until its folder was synced. Everything else may be on the disk, or not, or in part, in any order.
 */

import { dirname } from 'node:path';
import type { Effect } from './effects.ts';

export type Change =
  | { readonly kind: 'truncate'; readonly length: number }
  /** The file is this long at least; what is new in it is zeroes. */
  | { readonly kind: 'extend'; readonly length: number }
  | { readonly kind: 'write'; readonly offset: number; readonly bytes: Buffer };

interface Node {
  readonly inode: string;
  readonly isFolder: boolean;
  /** As of the last sync. */
  content: Buffer;
  /** Since the last sync, in order. */
  unsynced: Change[];
}

type EntryChange =
  | { readonly kind: 'add'; readonly path: string; readonly node: Node }
  | { readonly kind: 'remove'; readonly path: string }
  | { readonly kind: 'move'; readonly from: string; readonly to: string; readonly node: Node };

/** Which of the changes that were not synced are on the disk. */
export interface Losses {
  /** Returns the changes of the entries of a folder that are left; `folder` is its inode. */
  entries<T>(changes: readonly T[], folder: string): readonly T[];
  /** Returns the changes of a file that are left, whole or in part; `file` is its inode. */
  content(changes: readonly Change[], file: string): readonly Change[];
}

/** Everything is there, as after the end of a process. */
export const NOTHING_LOST: Losses = { entries: (changes) => changes, content: (changes) => changes };
/** Nothing is there that was not synced. */
export const ALL_LOST: Losses = { entries: () => [], content: () => [] };
/** Names and lengths are there, and zeroes where content was not synced: what was only overwritten is as before. */
export const CONTENT_LOST: Losses = {
  entries: (changes) => changes,
  content: (changes) => changes.map(lengthOf),
};

const ROOT = '';
const SECTOR_BYTES = 512;

export class Disk {
  /** The entries as the program sees them. */
  readonly #seen = new Map<string, Node>();
  /** The entries as of the last syncs of their folders. */
  readonly #synced = new Map<string, Node>();
  /** Changes of entries since then, by folder, in order. */
  readonly #unsynced = new Map<Node, EntryChange[]>();
  readonly #byInode = new Map<string, Node>();
  readonly #root: Node;

  /** `rootInode`: of the folder that was recorded. */
  constructor(rootInode: string) {
    this.#root = { inode: rootInode, isFolder: true, content: Buffer.alloc(0), unsynced: [] };
    this.#byInode.set(rootInode, this.#root);
    this.#seen.set(ROOT, this.#root);
  }

  apply(effect: Effect): void {
    switch (effect.kind) {
      case 'create':
      case 'mkdir':
        this.#add(effect.inode, effect.path, effect.kind === 'mkdir');
        return;
      case 'truncate':
        this.#node(effect.inode).unsynced.push({ kind: 'truncate', length: effect.length });
        return;
      case 'write':
        this.#node(effect.inode).unsynced.push({ kind: 'write', offset: effect.offset, bytes: effect.bytes });
        return;
      case 'sync':
        this.#sync(this.#node(effect.inode));
        return;
      case 'rename':
        this.#move(effect.from, effect.to);
        return;
      case 'unlink':
        this.#seen.delete(effect.path);
        this.#changed(effect.path, { kind: 'remove', path: effect.path });
        return;
      case 'say':
    }
  }

  /** The files that are there when the power comes back, by path; null is a folder. */
  after(losses: Losses): ReadonlyMap<string, Buffer | null> {
    const entries = new Map(this.#synced);
    for (const [{ inode }, changes] of this.#unsynced) {
      for (const change of losses.entries(changes, inode)) applyEntry(entries, change);
    }
    const found = new Map<string, Buffer | null>();
    for (const [path, node] of entries) {
      if (!isReachable(path, entries)) continue;
      found.set(
        path,
        node.isFolder ? null : applied(node.content, losses.content(node.unsynced, node.inode)),
      );
    }
    return found;
  }

  /** The files with such paths as the program sees them. */
  seen(isAsked: (path: string) => boolean): ReadonlyMap<string, Buffer> {
    const files = [...this.#seen].filter(([path, { isFolder }]) => !isFolder && isAsked(path));
    return new Map(files.map(([path, { content, unsynced }]) => [path, applied(content, unsynced)]));
  }

  #add(inode: string, path: string, isFolder: boolean): void {
    const node: Node = { inode, isFolder, content: Buffer.alloc(0), unsynced: [] };
    this.#byInode.set(inode, node);
    this.#seen.set(path, node);
    this.#changed(path, { kind: 'add', path, node });
  }

  #move(from: string, to: string): void {
    const node = this.#seen.get(from);
    if (node === undefined) throw new Error(`nothing is at ${from}`);
    this.#seen.delete(from);
    this.#seen.set(to, node);
    this.#changed(to, { kind: 'move', from, to, node });
  }

  #changed(path: string, change: EntryChange): void {
    const folder = this.#seen.get(folderOf(path));
    if (folder === undefined) throw new Error(`no folder was made for ${path}`);
    this.#unsynced.set(folder, [...(this.#unsynced.get(folder) ?? []), change]);
  }

  #sync(node: Node): void {
    if (node.isFolder) {
      for (const change of this.#unsynced.get(node) ?? []) applyEntry(this.#synced, change);
      this.#unsynced.delete(node);
      return;
    }
    node.content = applied(node.content, node.unsynced);
    node.unsynced = [];
  }

  #node(inode: string): Node {
    const node = this.#byInode.get(inode);
    if (node === undefined) throw new Error(`no file was made with the inode ${inode}`);
    return node;
  }
}

function folderOf(path: string): string {
  const folder = dirname(path);
  return folder === '.' ? ROOT : folder;
}

function applyEntry(entries: Map<string, Node>, change: EntryChange): void {
  if (change.kind === 'add') entries.set(change.path, change.node);
  if (change.kind === 'remove') entries.delete(change.path);
  if (change.kind === 'move') applyMove(entries, change);
}

/**
 * Within a folder, a change whose file is not there under its old name is lost with the change before it. What comes from another folder
 * is there under its new name, whatever became of that one.
 */
function applyMove(
  entries: Map<string, Node>,
  { from, to, node }: Extract<EntryChange, { kind: 'move' }>,
): void {
  const isThere = entries.get(from) === node;
  if (!isThere && folderOf(from) === folderOf(to)) return;
  if (isThere) entries.delete(from);
  entries.set(to, node);
}

function isReachable(path: string, entries: ReadonlyMap<string, Node>): boolean {
  const folder = folderOf(path);
  return folder === ROOT || (entries.get(folder)?.isFolder === true && isReachable(folder, entries));
}

function applied(content: Buffer, changes: readonly Change[]): Buffer {
  if (changes.length === 0) return content;
  const reach = changes.map(endOf);
  const bytes = Buffer.alloc(Math.max(content.length, 0, ...reach));
  content.copy(bytes);
  let { length } = content;
  for (const change of changes) {
    if (change.kind === 'truncate') {
      bytes.fill(0, change.length, Math.max(length, change.length));
      length = change.length;
    } else if (change.kind === 'extend') {
      length = Math.max(length, change.length);
    } else {
      change.bytes.copy(bytes, change.offset);
      length = Math.max(length, change.offset + change.bytes.length);
    }
  }
  return Buffer.from(bytes.subarray(0, length));
}

function endOf(change: Change): number {
  return change.kind === 'write' ? change.offset + change.bytes.length : change.length;
}

/** The length that the change gives the file, without its content. */
function lengthOf(change: Change): Change {
  return change.kind === 'write' ? { kind: 'extend', length: endOf(change) } : change;
}

/** Losses by chance: none, some in order, or some out of order; of a write some sectors. `next` is at least 0 and below 1. */
export function someLost(next: () => number): Losses {
  const keptShare = next();
  const isInOrder = next() < 0.5;
  return {
    entries: (changes) => {
      if (!isInOrder) return changes.filter(() => next() < keptShare);
      return changes.slice(0, Math.floor(next() * (changes.length + 1)));
    },
    content: (changes) => {
      const kept = isInOrder
        ? changes.slice(0, Math.floor(next() * (changes.length + 1)))
        : changes.filter(() => next() < keptShare);
      return kept.flatMap((change, index) => {
        const isTorn = change.kind === 'write' && (isInOrder ? index === kept.length - 1 : next() < 0.2);
        return isTorn ? torn(change, next) : [change];
      });
    },
  };
}

/** Sectors are written whole, in any order. */
function torn({ offset, bytes }: Extract<Change, { kind: 'write' }>, next: () => number): readonly Change[] {
  const parts: Change[] = [];
  const share = next();
  for (let from = offset; from < offset + bytes.length; ) {
    const to = Math.min(offset + bytes.length, (Math.floor(from / SECTOR_BYTES) + 1) * SECTOR_BYTES);
    if (next() < share)
      parts.push({ kind: 'write', offset: from, bytes: bytes.subarray(from - offset, to - offset) });
    from = to;
  }
  return parts;
}
