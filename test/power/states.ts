/** Chooses when the power fails and which writes are lost then, and lists the program's reports until then. Pure. */

import { createHash } from 'node:crypto';
import { seededRandom } from '../exploration/random.ts';
import { ALL_LOST, CONTENT_LOST, Disk, type Losses, NOTHING_LOST, someLost } from './disk.ts';
import type { Effect } from './effects.ts';
import { COMMAND_ENDED, REPORTS_LOST, type SyncSite } from './syncs.ts';

export interface Recorded {
  readonly effects: readonly Effect[];
  readonly rootInode: string;
  /** The files, by their paths, that a command has promised when it ends with 0. */
  readonly promised: RegExp;
}

export interface Reported {
  /** The newest version of each dataset that a line of the log has named as committed. */
  readonly versions: ReadonlyMap<string, number>;
  /** How many commits were reported. */
  readonly commits: number;
  readonly isCopyPublished: boolean;
  /** Further files that the commands have made, by path. */
  readonly files: ReadonlyMap<string, Buffer>;
}

/** `content`: of what was not synced, names and lengths are there, and no content. */
export const EVERY_LOSS = ['all', 'nothing', 'some', 'content', 'some'] as const;
export type Lost = (typeof EVERY_LOSS)[number];

export interface DiskState {
  /** The effects that came before the loss of power. */
  readonly moment: number;
  /** What is lost, in words. */
  readonly lost: string;
  readonly files: ReadonlyMap<string, Buffer | null>;
  readonly reported: Reported;
}

/** A loss of power that is tried. */
interface Failure {
  readonly moment: number;
  readonly lost: string;
  readonly losses: Losses;
}

/** Moments so shortly after a report are the ones at which something reported may be lost. */
const SOON_AFTER = 40;
/** The first numbers of neighbouring seeds are near each other. */
const LEFT_OUT_NUMBERS = 8;

/** The state that each seed means, in the order of their moments. `lost`: what is lost, in turn. */
export function* drawStates(
  recorded: Recorded,
  seeds: readonly number[],
  lost: readonly Lost[] = EVERY_LOSS,
): Generator<DiskState & { readonly seed: number }> {
  const failures = seeds.map((seed) => ({ seed, ...failureOf(recorded.effects, seed, lost) }));
  for (const { failure, ...state } of statesAfter(recorded, failures)) yield { ...state, seed: failure.seed };
}

function failureOf(effects: readonly Effect[], seed: number, lost: readonly Lost[]): Failure {
  const next = seededRandom(seed);
  for (let round = 0; round < LEFT_OUT_NUMBERS; round += 1) next();
  const kind = lost[seed % lost.length] ?? 'all';
  return { moment: drawMoment(effects, next), lost: kind, losses: lossesOf(kind, next) };
}

function lossesOf(lost: Lost, next: () => number): Losses {
  switch (lost) {
    case 'all':
      return ALL_LOST;
    case 'nothing':
      return NOTHING_LOST;
    case 'content':
      return CONTENT_LOST;
    case 'some':
      return someLost(next);
  }
}

/** Half of the moments come shortly after something was said, the others at any time. */
function drawMoment(effects: readonly Effect[], next: () => number): number {
  if (next() < 0.5) return Math.floor(next() * (effects.length + 1));
  const said = effects.flatMap(({ kind }, index) => (kind === 'say' ? [index] : []));
  const from = said[Math.floor(next() * said.length)] ?? 0;
  return Math.min(effects.length, from + 1 + Math.floor(next() * SOON_AFTER));
}

/** The most moments that are tried after one sync that is left out. */
const MOMENTS_AFTER = 12;

/**
 * The states that may fail where the program does not make the syncs of this place, in the order of their moments: what such a sync
 * would have promised is lost alone, or left alone, until the next sync of the same file or folder. `most`: how many there are at most.
 */
export function* statesWithout(recorded: Recorded, { places }: SyncSite, most: number): Generator<DiskState> {
  const { effects } = recorded;
  const left = new Set(places);
  const failures = places.flatMap((place) => {
    const effect = effects[place];
    if (effect?.kind !== 'sync') throw new Error(`there is no sync at ${place}`);
    const { inode } = effect;
    const moments = momentsAfter(effects, place, inode, left);
    return moments.flatMap((moment) => lossesAt(inode).map((loss) => ({ ...loss, moment })));
  });
  const step = Math.max(1, failures.length / most);
  const tried = failures.filter((_, index) => Math.floor(index / step) !== Math.floor((index - 1) / step));
  for (const { failure: _, ...state } of statesAfter(recorded, tried, left)) yield state;
}

/** The first moments after the sync at which a name, a sync or a report came, and others up to the next sync of the same inode. */
function momentsAfter(
  effects: readonly Effect[],
  place: number,
  inode: string,
  leftOut: ReadonlySet<number>,
): readonly number[] {
  const endsAt = effects.findIndex(
    (effect, index) =>
      index > place && 'inode' in effect && effect.inode === inode && endsPromise(effect, index, leftOut),
  );
  const end = endsAt === -1 ? effects.length : endsAt;
  const moments = [];
  for (let moment = place + 1; moment <= end; moment += 1) {
    const before = effects[moment - 1]?.kind;
    if (moment === place + 1 || moment === end || before !== 'write') moments.push(moment);
  }
  const first = moments.slice(0, MOMENTS_AFTER / 2);
  const rest = moments.slice(MOMENTS_AFTER / 2);
  const step = Math.max(1, Math.ceil(rest.length / (MOMENTS_AFTER / 2)));
  return [...first, ...rest.filter((_, index) => index % step === 0 || index === rest.length - 1)];
}

function endsPromise({ kind }: Effect, index: number, leftOut: ReadonlySet<number>): boolean {
  return kind === 'create' || kind === 'mkdir' || (kind === 'sync' && !leftOut.has(index));
}

function lossesAt(inode: string): readonly Omit<Failure, 'moment'>[] {
  const onlyThere = <T>(
    lost: (changes: readonly T[]) => readonly T[],
  ): ((changes: readonly T[], of: string) => readonly T[]) => {
    return (changes, of) => (of === inode ? lost(changes) : changes);
  };
  const others = <T>(changes: readonly T[], of: string): readonly T[] => (of === inode ? changes : []);
  return [
    { lost: 'all', losses: ALL_LOST },
    {
      lost: 'that alone',
      losses: { entries: onlyThere(() => []), content: onlyThere(() => []) },
    },
    {
      lost: 'the first of that',
      losses: {
        entries: onlyThere((changes) => changes.slice(1)),
        content: onlyThere((changes) => CONTENT_LOST.content(changes, inode)),
      },
    },
    {
      lost: 'the last of that',
      losses: {
        entries: onlyThere((changes) => changes.slice(0, -1)),
        content: onlyThere((changes) => changes.slice(0, -1)),
      },
    },
    { lost: 'everything else', losses: { entries: others, content: others } },
  ];
}

interface StateAfter<F> extends DiskState {
  readonly failure: F;
}

/** The effects at the places in `leftOut` are left out. */
function* statesAfter<F extends Failure>(
  { effects, rootInode, promised }: Recorded,
  failures: readonly F[],
  leftOut: ReadonlySet<number> = new Set(),
): Generator<StateAfter<F>> {
  const disk = new Disk(rootInode);
  let reported: Reported = { ...NOTHING_REPORTED, files: new Map() };
  let done = 0;
  for (const failure of failures.toSorted((left, right) => left.moment - right.moment)) {
    const { moment, lost, losses } = failure;
    for (const effect of effects.slice(done, moment)) {
      if (!leftOut.has(done)) disk.apply(effect);
      reported = afterEffect(reported, effect, disk, promised);
      done += 1;
    }
    yield { failure, moment, lost, files: disk.after(losses), reported };
  }
}

const NOTHING_REPORTED = { versions: new Map<string, number>(), commits: 0, isCopyPublished: false };

function afterEffect(reported: Reported, effect: Effect, disk: Disk, promised: RegExp): Reported {
  switch (effect.kind) {
    case 'say':
      if (effect.text === COMMAND_ENDED)
        return withFiles(
          reported,
          disk.seen((path) => promised.test(path)),
        );
      if (effect.text === REPORTS_LOST) return { ...reported, ...NOTHING_REPORTED };
      return withFiles(afterSaying(reported, effect.text), quarantined(effect.text, disk));
    case 'rename':
      return withoutFiles(reported, [effect.from, effect.to]);
    case 'create':
    case 'unlink':
      return withoutFiles(reported, [effect.path]);
    default:
      return reported;
  }
}

function withFiles(reported: Reported, files: ReadonlyMap<string, Buffer>): Reported {
  return files.size === 0 ? reported : { ...reported, files: new Map([...reported.files, ...files]) };
}

/** What a line of the log says was quarantined is there from then on, with its log. */
function quarantined(text: string, disk: Disk): ReadonlyMap<string, Buffer> {
  const [, name] = /"quarantinedAs":"[^"]*\/([^"/]+)"/.exec(text) ?? [];
  if (name === undefined) return new Map();
  const names = ['', '.wal', '-wal'].map((suffix) => `/${name}${suffix}`);
  return disk.seen((path) => names.some((one) => path.endsWith(one)));
}

/** The program has begun to change them again. */
function withoutFiles(reported: Reported, paths: readonly string[]): Reported {
  if (!paths.some((path) => reported.files.has(path))) return reported;
  return { ...reported, files: new Map([...reported.files].filter(([path]) => !paths.includes(path))) };
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
  return { ...reported, versions, commits, isCopyPublished };
}

/** The files that are there where the power fails after the last effect. */
export function finalFiles(
  { effects, rootInode }: Recorded,
  losses: Losses,
): ReadonlyMap<string, Buffer | null> {
  const disk = new Disk(rootInode);
  for (const effect of effects) disk.apply(effect);
  return disk.after(losses);
}

/** Shared memory of SQLite, which no disk keeps. */
const NOT_ON_DISK = /-shm$/;

/** Returns the files that a disk keeps. */
export function keptFiles({ files }: DiskState): readonly (readonly [path: string, bytes: Buffer | null])[] {
  return [...files].filter(([path]) => !NOT_ON_DISK.test(path));
}

/** Two states with the same digest are judged the same. */
export function digestOf(state: DiskState): string {
  const { versions, commits, isCopyPublished, files } = state.reported;
  const digest = createHash('sha256');
  digest.update(JSON.stringify([[...versions], commits, isCopyPublished]));
  for (const [path, bytes] of [
    ...files,
    ...keptFiles(state).toSorted(([one], [other]) => (one < other ? -1 : 1)),
  ]) {
    digest.update(JSON.stringify([path, bytes?.length ?? null]));
    if (bytes !== null) digest.update(bytes);
  }
  return digest.digest('hex');
}
