/**
 * A dataset's past as it truly was, beside what the service says of it. What is true is known here without asking the planner:
 * what each manifest shows, which events it reflects, and what the rows of a table are.
 */

import { present } from '../../src/lib/assert.ts';
import type { Reload } from '../../src/model/desired-state.ts';
import type { ListedEntry, ManifestEntry, Watermark } from '../../src/model/manifest.ts';
import type { Schema, Version } from '../../src/model/records.ts';
import type { Metadata } from '../../src/sync/plan/step.ts';
import { LAG_MS } from './planning.ts';
import { entry, reload } from './sync-values.ts';

/** A version as it was published. */
export interface Published {
  /** As the service lists it; what it says may be less than the truth, or another. */
  readonly record: Version;
  readonly isListed: boolean;
  /** The one that its changes start from, by its place in the past; null: they start from none. */
  readonly follows: number | null;
  readonly isRecorded: boolean;
  /** A value of its changes is bad. */
  readonly isBad: boolean;
  readonly schema: Schema;
  /** Adds columns to the schema before, or has the same. */
  readonly keepsColumns: boolean;
}

/** What the service did. */
export type Move =
  /** A version was published: the newest from then on. An event announces it. */
  | { readonly kind: 'publish'; readonly at: Date; readonly place: number }
  /** The content of the newest was replaced under its version. An event asks for a reload. */
  | { readonly kind: 'replace'; readonly at: Date }
  /** The newest was withdrawn, so that the one before it is the newest again. No event says so. */
  | { readonly kind: 'withdraw'; readonly at: Date }
  /** A version restart with this one, of other content. An event asks for a reload, or none. */
  | { readonly kind: 'restart'; readonly at: Date; readonly place: number; readonly isReported: boolean };

export interface ModelHistory {
  /** Everything that was ever published, oldest first. */
  readonly published: readonly Published[];
  /** In order; the first publishes. */
  readonly moves: readonly Move[];
  /** Newest first. */
  readonly schemas: readonly Schema[];
  /** Contents of snapshots that cannot be loaded. */
  readonly badContents: ReadonlySet<string>;
  /** Moves that the list of versions does not show yet. */
  readonly listLag: number;
}

/** What rows are. */
export interface Content {
  /** The version, by its place in the past. */
  readonly place: number;
  /** How often content was replaced before. */
  readonly generation: number;
}

/** The service after one of its moves. */
export interface State {
  /** The places of the versions that it has, oldest first. */
  readonly places: readonly number[];
  readonly content: Content;
}

export function stateAfter(move: number, { moves }: Pick<ModelHistory, 'moves'>): State {
  let places: readonly number[] = [];
  let generation = 0;
  for (const made of moves.slice(0, move + 1)) {
    if (made.kind === 'publish') places = [...places, made.place];
    else if (made.kind === 'withdraw') places = places.slice(0, -1);
    else generation += 1;
    if (made.kind === 'restart') places = [made.place];
  }
  const place = present(places.at(-1), 'the service has a version');
  return { places, content: { place, generation } };
}

export function stateNow(model: Pick<ModelHistory, 'moves'>): State {
  return stateAfter(model.moves.length - 1, model);
}

/** What the list of versions shows. */
export function stateListed(model: Pick<ModelHistory, 'moves' | 'listLag'>): State {
  return stateAfter(model.moves.length - 1 - model.listLag, model);
}

/** The last move that was made by then; -1: none. */
export function lastMoveBy(at: Date, { moves }: Pick<ModelHistory, 'moves'>): number {
  return moves.findLastIndex((move) => move.at <= at);
}

/** Whether the log reports a move. */
export function isReported(move: Move): boolean {
  return move.kind === 'restart' ? move.isReported : move.kind !== 'withdraw';
}

/** Numbers of one log say nothing of the other. */
export function eventNumber(subscriptionId: string, move: number): bigint {
  return BigInt((subscriptionId === 'sub_2' ? 7_000 : 100) + move);
}

/** Each subscription gets its event a little after the one before it. */
export function reportedAt(subscriptionId: string, { at }: Move): Date {
  return new Date(at.getTime() + (subscriptionId === 'sub_2' ? 500 : 0));
}

/** The number of the newest event by then. */
export function newestEvent(
  subscriptionId: string,
  move: number,
  { moves }: Pick<ModelHistory, 'moves'>,
): bigint {
  const last = moves.slice(0, move + 1).findLastIndex(isReported);
  return eventNumber(subscriptionId, last);
}

/** The moves that ask for a reload. */
export function asksForReload(move: Move): boolean {
  return move.kind === 'replace' || (move.kind === 'restart' && move.isReported);
}

/** The reload that a move asks for in the log of a subscription. */
export function reloadOf(
  subscriptionId: string,
  move: number,
  { moves }: Pick<ModelHistory, 'moves'>,
  changed: Partial<Reload>,
): Reload {
  const createdAt = reportedAt(subscriptionId, present(moves[move], 'the move was made'));
  const number = eventNumber(subscriptionId, move);
  return reload(number, { subscriptionId, createdAt, readAt: createdAt, ...changed });
}

/** An entry of a manifest, and the last move that it shows. */
export interface Shown {
  readonly listedEntry: ListedEntry;
  readonly move: number;
}

export interface ShownBy {
  readonly subscriptionId: string;
  /** The last move that it shows at least; it lags no longer than it may. */
  readonly move: number;
  readonly readAt: Date;
  /** It does not say how far it goes. */
  readonly isByTime: boolean;
  /** Each file states a digest. */
  readonly hasDigest: boolean;
  readonly changed?: Partial<ManifestEntry>;
}

/** A change without an event is published with the event before it: numbers could not tell the two apart. */
export function shownBy(how: ShownBy, model: ModelHistory): Shown {
  const { subscriptionId, readAt, isByTime, hasDigest, changed } = how;
  const through = new Date(readAt.getTime() - LAG_MS);
  const least = isByTime ? Math.max(how.move, lastMoveBy(through, model)) : how.move;
  const next = model.moves.findIndex((move, index) => index > least && isReported(move));
  const move = isByTime ? least : (next === -1 ? model.moves.length : next) - 1;
  const { content } = stateAfter(move, model);
  const { record } = publishedAt(content.place, model);
  const watermark: Watermark = isByTime
    ? { kind: 'time', through }
    : { kind: 'number', through: newestEvent(subscriptionId, move, model) };
  const snapshot = entry(record.datasetId, record.version, hasDigest ? textOf(content) : null);
  const { rowCount } = record;
  const listedEntry: ListedEntry = {
    subscriptionId,
    logNumber: 1,
    through: subscriptionId,
    watermark,
    readAt,
    entry: { ...snapshot, rowCount, ...changed },
  };
  return { listedEntry, move };
}

/** What a digest is made of. */
export function textOf({ place, generation }: Content): string {
  return `content ${place}.${generation}`;
}

export function publishedAt(place: number, { published }: Pick<ModelHistory, 'published'>): Published {
  return present(published[place], 'it was published');
}

/** The place of a version, by its record: numbers come again. */
export function placeOf(record: Version, { published }: Pick<ModelHistory, 'published'>): number {
  const place = published.findIndex((one) => one.record === record);
  if (place === -1) throw new Error(`Version ${record.version} was never published.`);
  return place;
}

/** The list of versions, as the service gives it. */
export function metadataNow(
  newerThan: number | null,
  model: ModelHistory,
  readAt: Date,
  entriesBefore: Metadata['entriesBefore'],
): Metadata {
  const listed = stateListed(model)
    .places.map((place) => publishedAt(place, model))
    .filter(({ record, isListed }) => isListed && record.version > (newerThan ?? -1));
  const versions = listed.map(({ record }) => record).toReversed();
  return { newerThan, versions, schemas: model.schemas, readAt, entriesBefore };
}
