/** Chooses the moments at which the power fails and what is lost then, and says what the program had reported by then. Pure. */

import { ALL_LOST, Disk, type Losses, NOTHING_LOST, someLost } from './disk.ts';
import type { Effect } from './effects.ts';
import type { Recording } from './record.ts';

export interface Reported {
  /** The newest version of each dataset that a line of the log has named as committed. */
  readonly versions: ReadonlyMap<string, number>;
  /** How many commits were reported. */
  readonly commits: number;
  readonly isCopyPublished: boolean;
}

export interface DiskState {
  /** The effects that came before the loss of power. */
  readonly moment: number;
  readonly lost: 'all' | 'nothing' | 'some';
  readonly files: ReadonlyMap<string, Buffer | null>;
  readonly reported: Reported;
}

export interface Drawing {
  readonly count: number;
  /** At least 0 and below 1. */
  readonly next: () => number;
  /** What is lost, in turn. */
  readonly lost: readonly DiskState['lost'][];
  /** The durable effect whose syncs are left out, as if the program did not make them; the moments then follow one of these. */
  readonly without?: string;
}

export const EVERY_LOSS = ['all', 'nothing', 'some', 'some'] as const;
/** Moments so shortly after a report are the ones at which something reported may be lost. */
const SOON_AFTER = 40;

/** Draws states, in the order of their moments. */
export function* drawStates({ effects, rootInode }: Recording, drawing: Drawing): Generator<DiskState> {
  const { next, without } = drawing;
  const moments = drawMoments(effects, drawing);
  const disk = new Disk(rootInode);
  let reported: Reported = { versions: new Map(), commits: 0, isCopyPublished: false };
  const names = durableNames(effects);
  let done = 0;
  for (const [index, moment] of moments.entries()) {
    for (const effect of effects.slice(done, moment)) {
      const isLeftOut = effect.kind === 'sync' && without !== undefined && names[done] === without;
      if (effect.kind === 'say') reported = afterSaying(reported, effect.text);
      else if (!isLeftOut) disk.apply(effect);
      done += 1;
    }
    const lost = drawing.lost[index % drawing.lost.length] ?? 'all';
    const losses = { all: ALL_LOST, nothing: NOTHING_LOST, some: someLost(next) }[lost];
    yield { moment, lost, files: disk.after(losses), reported };
  }
}

/** The files that are there where the power fails after the last effect. */
export function finalFiles(
  { effects, rootInode }: Recording,
  losses: Losses,
): ReadonlyMap<string, Buffer | null> {
  const disk = new Disk(rootInode);
  for (const effect of effects) disk.apply(effect);
  return disk.after(losses);
}

/** The durable effects of the program within which something was synced. */
export function syncingNames(effects: readonly Effect[]): readonly string[] {
  const names = durableNames(effects).filter((_, index) => effects[index]?.kind === 'sync');
  return [...new Set(names)].filter((name) => name !== null).sort();
}

/** Half of the moments come shortly after a report or a sync that is left out, the others at any time. */
function drawMoments(effects: readonly Effect[], { count, next, without }: Drawing): readonly number[] {
  const names = durableNames(effects);
  const isWatched = ({ kind }: Effect, index: number): boolean =>
    without === undefined ? kind === 'say' : kind === 'sync' && names[index] === without;
  const watched = effects.flatMap((effect, index) => (isWatched(effect, index) ? [index] : []));
  const moments = Array.from({ length: count }, (_, index) => {
    if (index % 2 === 0 && without === undefined) return Math.floor(next() * (effects.length + 1));
    const from = watched[Math.floor(next() * watched.length)] ?? 0;
    return Math.min(effects.length, from + 1 + Math.floor(next() * SOON_AFTER));
  });
  return moments.sort((left, right) => left - right);
}

/** The durable effect within which each effect came; `before destination.commit` and `after destination.commit` surround it. */
function durableNames(effects: readonly Effect[]): readonly (string | null)[] {
  let within: string | null = null;
  return effects.map((effect) => {
    const [, when, name] =
      (effect.kind === 'say' && /^(before|after) (\w+\.[\w-]+)\n$/.exec(effect.text)) || [];
    if (name !== undefined) within = when === 'before' ? name : null;
    return within;
  });
}

function afterSaying(reported: Reported, text: string): Reported {
  let { versions, commits, isCopyPublished } = reported;
  for (const line of text.split('\n')) {
    if (line.startsWith('Published a copy')) isCopyPublished = true;
    if (!/"msg":"(?:Loaded a snapshot|Applied changes)\."/.test(line)) continue;
    const { dataset, version } = JSON.parse(line);
    versions = new Map([...versions, [dataset, version]]);
    commits += 1;
  }
  return { versions, commits, isCopyPublished };
}
