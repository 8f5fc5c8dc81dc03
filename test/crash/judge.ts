/** What is asked of an installation after a kill and a restart, by what came of the same undisturbed. */

import { existsSync } from 'node:fs';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { everythingPublished } from '../support/published.ts';
import { sameText } from '../support/same-text.ts';
import { checkpointOf, filesOf, type History, historyOf, owedResyncs, pastOf } from './evidence.ts';
import type { Act, Evidence, Stage } from './scenario.ts';

export interface Seen {
  readonly files: readonly string[];
  readonly history: History;
  readonly past: readonly string[];
  readonly checkpoint: Readonly<Record<string, unknown>>;
  /** Files that were fetched. */
  readonly fetched: number;
}

/** What a kill has left. */
export interface LeftAtTheKill {
  /** Before anything was done. */
  readonly historyBefore: History;
  readonly history: History;
  /** Files that are downloaded and verified. */
  readonly staged: number;
}

export async function readEvidence({ county, installed }: Stage): Promise<Seen> {
  return {
    files: filesOf(installed),
    history: existsSync(installed.mirrorPath) ? await historyOf(installed.mirrorPath) : new Map(),
    past: existsSync(installed.mirrorPath) ? await pastOf(installed.mirrorPath) : [],
    checkpoint: { ...checkpointOf(installed), 'owed resyncs': await owedResyncs(installed) },
    fetched: fetchedFiles(county.feed).length,
  };
}

/** The mirror and its copy are what the feed says; whatever was or was not killed. */
export async function wrongInTheMirror({ county, installed }: Stage, act: Act): Promise<readonly string[]> {
  if (!hasMirror(act)) return [];
  const expected = act.expected?.() ?? everythingPublished(county.feed);
  const copy = act.copy === undefined ? [] : await mirrorDifferences(act.copy, expected);
  return [
    ...(await mirrorDifferences(installed.mirrorPath, expected)),
    ...copy.map((difference) => `published copy: ${difference}`),
  ];
}

/** No leftover, no event lost, nothing done twice: what is left is what is left undisturbed. */
export function wrongWithTheRest(
  seen: Seen,
  undisturbed: Seen,
  mayDiffer: readonly Evidence[],
): readonly string[] {
  const compared: Readonly<Record<Evidence, readonly string[]>> = {
    files: sameText('files left', seen.files, undisturbed.files),
    history: sameText('history', inOrder(seen.history), inOrder(undisturbed.history)),
    past: sameText('undo logs', seen.past, undisturbed.past),
    checkpoint: Object.keys(undisturbed.checkpoint).flatMap((what) =>
      sameText(`checkpoint: ${what}`, seen.checkpoint[what], undisturbed.checkpoint[what]),
    ),
  };
  return (['files', 'history', 'past', 'checkpoint'] as const).flatMap((what) =>
    mayDiffer.includes(what) ? [] : compared[what],
  );
}

/** What was committed is there still, and is not asked for again; nor is a file that was downloaded. */
export function wrongWithTheWork(
  { county: { feed } }: Stage,
  left: LeftAtTheKill,
  seen: Seen,
  undisturbed: Seen,
  mayAskAgain: boolean,
): readonly string[] {
  const lost = [...left.history].filter(
    ([datasetId, lines]) => !isBeginning(lines, seen.history.get(datasetId) ?? []),
  );
  const files = fetchedFiles(feed);
  const changes = feed.requests.entries('changes');
  const done = [...undisturbed.history].flatMap(([datasetId, lines]) => {
    const [before, atTheKill] = [left.historyBefore, left.history].map(
      (history) => history.get(datasetId) ?? [],
    );
    return before?.length !== lines.length && atTheKill?.length === lines.length ? [datasetId] : [];
  });
  const again = mayAskAgain
    ? []
    : [...files, ...changes].filter(({ datasetId }) => done.includes(datasetId ?? ''));
  const once = undisturbed.fetched - left.staged;
  return [
    ...(seen.fetched > once
      ? [`${seen.fetched} files were fetched, and ${left.staged} were there already`]
      : []),
    ...lost.map(([datasetId]) => `lines of the history of ${datasetId} are gone`),
    ...again.map(
      ({ datasetId, operation }) => `${operation} of ${datasetId} was asked for, which was committed`,
    ),
  ];
}

/** One that is still the same is not fetched. */
function fetchedFiles(feed: FixtureFeed) {
  return feed.requests.entries('file').filter(({ status }) => status === 200 || status === 206);
}

function hasMirror({ expected }: Act): boolean {
  return expected === undefined || expected() !== null;
}

function isBeginning(lines: readonly string[], of: readonly string[]): boolean {
  return lines.every((line, index) => of[index] === line);
}

function inOrder(history: History): unknown {
  return [...history].toSorted(([left], [right]) => (left < right ? -1 : 1));
}
