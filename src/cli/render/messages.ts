/** Words errors for people: what happened, to what, why, and what to do. */

import type { Failure, Suspension } from '../../checkpoint/checkpoint.ts';
import { unreachable } from '../../lib/assert.ts';
import { causeIn, nearest, printable, shellWord } from '../../lib/text.ts';
import { formatCount, plural } from '../../lib/units.ts';
import type { ErrorCode } from '../../model/error-codes.ts';
import {
  CommandRefusedError,
  errorCodeOf,
  FeedSyncError,
  type Refusal,
  RefusalError,
  type RefusalScope,
  type RefusalWords,
} from '../../model/errors.ts';
import { detailsOf } from '../../sync/candidates.ts';
import { possibleCause, waysOutOf } from '../../sync/incidents.ts';
import { isOfContent } from '../../sync/plan/content.ts';
import type { CatchUpResult, DatasetResult } from '../../sync/result.ts';

/**
 * Returns the message with the code of the error and, below it, the hint. A refusal shown like this suspends nothing: the
 * command may be run again.
 */
export function formatError(error: Error): string {
  if (error instanceof RefusalError || error instanceof CommandRefusedError) {
    const wayOut =
      error.code === 'input_refused'
        ? 'Correct what was given to the command, and give it again.'
        : 'Once you have acted on it, give the command again.';
    const cause = possibleCause(error.refusal);
    const waysOn = [...(cause === null ? [] : [cause]), wayOut];
    return withCode([...answerOf(error.refusal), ...waysOn.map((way) => `→ ${way}`)].join('\n'), error.code);
  }
  const [message, hint] = [error.message, error instanceof FeedSyncError ? (error.hint ?? '') : ''].map(
    shownLines,
  );
  return [withCode(message ?? '', errorCodeOf(error)), ...(hint === '' ? [] : [`→ ${hint}`])].join('\n');
}

function shownLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

/** Returns an error of a catch-up, of a subscription or of the whole run. */
export function formatIncident({ subscriptionId, error }: CatchUpResult['incidents'][number]): string {
  const of = subscriptionId === null ? '' : `Subscription ${printable(subscriptionId)}: `;
  return `${of}${formatError(error)}`;
}

/**
 * Returns whether the dataset itself is suspended. A suspension of its subscription, or of all retirements, is reported once for all
 * its datasets.
 */
export function isSuspendedItself(
  result: DatasetResult,
): result is Extract<DatasetResult, { kind: 'suspended' }> {
  return result.kind === 'suspended' && result.suspension.refusal.scope.kind === 'dataset';
}

/**
 * Adds the code, by which docs/errors.md is read, to the end of the first line. Other lines than a list below it are one text with the
 * first, such as an error of DuckDB with a part of the SQL: then the code has a line of its own.
 */
function withCode(text: string, code: ErrorCode): string {
  const [, ...others] = text.split('\n');
  const isOneText = others.some((line) => !/^( {2}|→)/.test(line));
  return isOneText ? `${text.trimEnd()}\n[${code}]` : text.replace(/$/m, ` [${code}]`);
}

/** Returns the cause of a suspension with its links, its start, and how to continue after an operator has acted. */
export function formatSuspension({
  refusal,
  suspendedAt,
  candidate,
}: Pick<Suspension, 'refusal' | 'suspendedAt' | 'candidate'>): string {
  const isOurs = refusal.status === null;
  const meanwhile = isOurs
    ? 'what is mirrored stays as it is'
    : 'nothing more is asked of the service for it';
  return [
    ...(isOurs ? [ourWords(refusal)] : answerOf(refusal)),
    ...(candidate === undefined ? [] : detailsOf(candidate)).map((line) => `  ${printable(line)}`),
    `  Suspended since ${formatTime(suspendedAt)}; until you have acted, ${meanwhile}.`,
    ...waysOutOf({ refusal, ...(candidate === undefined ? {} : { candidate }) }).map((way) => `→ ${way}`),
  ].join('\n');
}

/** Says when a failed dataset is tried again. `time` is in words. */
export function formatRetry(failure: Failure, time: string): string {
  if (!isOfContent(failure)) return '→ The next catch-up tries it again.';
  const command = `feed-sync resume --dataset ${shellWord(failure.datasetId)}`;
  return `→ The same content is not fetched again before ${time}, unless you ask: ${command}`;
}

/** Marks the service's words as such. */
function answerOf(refusal: RefusalWords): readonly string[] {
  const { operation, message, links } = refusal;
  return [
    `The service refused to ${printable(operation)} (${printable(statusAndCode(refusal))}).`,
    `  It says: ${printable(message)}`,
    ...[...links].map(([name, url]) => `  ${printable(name)}: ${printable(url)}`),
  ];
}

/** Returns `403 insufficient_scope`. */
export function statusAndCode({ status, code }: Pick<RefusalWords, 'status' | 'code'>): string {
  return [status, code].filter((part) => part !== null).join(' ');
}

function ourWords({ scope, code, message }: Refusal): string {
  const observed = `${formatScope(scope)} is suspended${code === null ? '' : ` (${printable(code)})`}`;
  return `${observed.charAt(0).toUpperCase()}${observed.slice(1)}: ${printable(message)}`;
}

export function formatScope(scope: RefusalScope): string {
  switch (scope.kind) {
    case 'workspace':
      return 'this API key';
    case 'subscription':
      return `subscription ${printable(scope.subscriptionId)}`;
    case 'dataset':
      return `dataset ${printable(scope.datasetId)}`;
    case 'retirement':
      return 'the retirement of datasets';
    default:
      return unreachable(scope);
  }
}

/** The most names of a list; the rest is counted. */
const MAX_LISTED = 20;

/** Returns `a, b and 1,200 more`. `names` must not be empty. */
export function listed(names: readonly string[]): string {
  const rest = names.length - MAX_LISTED;
  const shown = names.slice(0, MAX_LISTED).map(printable).join(', ');
  return rest > 0 ? `${shown} and ${formatCount(rest)} more` : shown;
}

/** A problem of one dataset, and the words for it. */
export interface DatasetProblem {
  readonly datasetId: string;
  /** The code and the message of the error. */
  readonly cause: string;
  readonly text: string;
}

/** Keeps one problem of each cause: in the words of its first dataset, with the names of the others. */
export function groupByCause(problems: readonly DatasetProblem[]): readonly DatasetProblem[] {
  const byCause = Map.groupBy(problems, ({ datasetId, cause }) => causeIn(cause, datasetId));
  return [...byCause.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    return [{ ...first, text: `${first.text}${theSameFor(others.map(({ datasetId }) => datasetId))}` }];
  });
}

/** Returns a line that follows the words of a cause; empty where there is nobody else. */
export function theSameFor(datasetIds: readonly string[]): string {
  const { length } = datasetIds;
  return length === 0 ? '' : `\nThe same for ${plural(length, 'more dataset')}: ${listed(datasetIds)}.`;
}

export function suspensionProblem(datasetId: string, suspension: Suspension): DatasetProblem {
  const { operation, status, code, message } = suspension.refusal;
  const cause = [operation, status, code, message, suspension.candidate?.version].join(' ');
  return { datasetId, cause, text: formatSuspension(suspension) };
}

/** An entry of a headline: the items that are counted, and the words for them. */
export interface Counted<Item> {
  readonly words: string;
  readonly counts: (item: Item) => boolean;
  /** The count is reported where it is 0, too. */
  readonly isAlwaysReported?: boolean;
}

/** Returns `9 datasets: 7 up to date, 1 behind, 1 suspended`. Every item is counted once, by the first matching entry. */
export function formatCounts<Item>(
  subject: string,
  items: readonly Item[],
  entries: readonly Counted<Item>[],
): string {
  const grouped = Map.groupBy(items, (item) => entries.find(({ counts }) => counts(item)));
  const counted = entries.flatMap((entry) => {
    const count = grouped.get(entry)?.length ?? 0;
    return count > 0 || entry.isAlwaysReported === true ? [`${formatCount(count)} ${entry.words}`] : [];
  });
  return counted.length === 0 ? subject : `${subject}: ${counted.join(', ')}`;
}

const MINUTE_MS = 60_000;
const UNITS = [
  { noun: 'day', ms: 24 * 60 * MINUTE_MS },
  { noun: 'hour', ms: 60 * MINUTE_MS },
  { noun: 'minute', ms: MINUTE_MS },
] as const;

/** Returns `2026-03-01 12:00`, in UTC: for a table whose title says so. A text is in ISO 8601. */
export function minuteOf(timestamp: Date | string): string {
  return new Date(timestamp).toISOString().slice(0, 16).replace('T', ' ');
}

/** Returns `2026-03-01 12:00 UTC`. */
export function formatTime(timestamp: Date | string): string {
  return `${minuteOf(timestamp)} UTC`;
}

/** Rounds up to a whole minute: `2026-03-01 12:00 UTC`. */
export function formatTimeRoundedUp(timestamp: Date): string {
  return formatTime(new Date(Math.ceil(timestamp.getTime() / MINUTE_MS) * MINUTE_MS));
}

/** Returns `2026-03-01 12:00 UTC (3 hours ago)`, `… (in 1 minute)`. */
export function formatTimeFrom(now: Date, timestamp: Date | string): string {
  return `${formatTime(timestamp)} (${distanceTo(new Date(timestamp), now)})`;
}

/** In the largest unit that fits at least once, rounded down, so that the text never exceeds the passed time. */
function distanceTo(timestamp: Date, now: Date): string {
  const ms = timestamp.getTime() - now.getTime();
  const unit = UNITS.find((one) => Math.abs(ms) >= one.ms);
  if (unit === undefined) return ms > 0 ? 'in less than a minute' : 'just now';
  const count = Math.floor(Math.abs(ms) / unit.ms);
  const length = plural(count, unit.noun);
  return ms > 0 ? `in ${length}` : `${length} ago`;
}

/** Returns `parcel (the nearest is parcels), x`: an id that shares less than half with every known id has no nearest one. */
export function formatUnknown(unknown: readonly string[], known: readonly string[]): string {
  const worded = unknown.map((id) => {
    const candidate = nearest(id, known);
    const meant = candidate === null ? '' : ` (the nearest is ${printable(candidate)})`;
    return `${id.trim() === '' ? `"${printable(id)}"` : printable(id)}${meant}`;
  });
  return worded.join(', ');
}

/** Returns the names that are known, for a hint; where there are too many of them, or none, the command that lists them. */
export function knownNames(known: readonly string[], lister: string): string {
  const isShort = known.length > 0 && known.length <= MAX_LISTED;
  return isShort ? `Known: ${listed(known.toSorted())}.` : lister;
}

export interface IncidentRaised {
  readonly error: ErrorCode;
  readonly message: string;
  readonly hint: string | null;
  /** The links of a refusal. */
  readonly links: Readonly<Record<string, string>>;
}

export function incidentRaised(error: Error): IncidentRaised {
  const isRefusal = error instanceof RefusalError || error instanceof CommandRefusedError;
  const links = isRefusal ? Object.fromEntries(error.refusal.links) : {};
  const hint = error instanceof FeedSyncError ? error.hint : null;
  return { error: errorCodeOf(error), message: error.message, hint, links };
}
