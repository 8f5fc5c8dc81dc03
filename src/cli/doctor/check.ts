/** What a check of `doctor` is given, and what it gives. */

import type { InstanceHolder } from '../../checkpoint/instance-lock.ts';
import type { Inspection } from '../../configuration/load.ts';
import type { ObservedState } from '../../destination/destination.ts';
import type { AnswerSeen } from '../../feed/http/connection-check.ts';
import { formatCount } from '../../lib/units.ts';
import { FeedSyncError, RefusalError } from '../../model/errors.ts';
import type { Subscription } from '../../model/records.ts';
import type { CheckpointContent } from '../../reporting/stores.ts';
import { possibleCause } from '../../sync/incidents.ts';
import type { Context } from '../context.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf, mostUrgent } from '../exit-codes.ts';

/** The names of the checks, in the order in which they are made and told. Programs rely on them. */
export type CheckName =
  | 'versions'
  | 'configuration'
  | 'disk'
  | 'locks'
  | 'checkpoint'
  | 'mirror'
  | 'connection'
  | 'clock'
  | 'key'
  | 'contract'
  | 'scopes'
  | 'subscriptions';

export interface Check {
  readonly name: CheckName;
  /** After so long it is given up; what it found is then that it takes too long. */
  readonly limitMs: number;
  /** Whatever it throws is a finding, and stops no other check. */
  run(checkInput: CheckInput, facts: Facts, signal: AbortSignal): Promise<Checked> | Checked;
}

export interface Checked {
  readonly findings: readonly Finding[];
  /** For the checks after it. */
  readonly facts?: Partial<Facts>;
}

/** What is looked at. */
export interface CheckInput {
  /** Of feed-sync. */
  readonly version: string;
  readonly inspection: Inspection;
  readonly context: Context;
}

/** What earlier checks found out, for later ones; null: not known. */
export interface Facts {
  readonly checkpoint: CheckpointContent | null;
  readonly mirror: ObservedState | null;
  readonly runningInstance: InstanceHolder | null;
  /** What the service answered to a request without a key. */
  readonly answer: AnswerSeen | null;
  /** Whether it answered, over a connection that is trusted. */
  readonly isReachable: boolean;
  /** What the key sees. */
  readonly subscriptions: readonly Subscription[] | null;
  /** Datasets that a manifest lists; not all of them. */
  readonly listedDatasetIds: readonly string[];
}

export const NO_FACTS: Facts = {
  checkpoint: null,
  mirror: null,
  runningInstance: null,
  answer: null,
  isReachable: false,
  subscriptions: null,
  listedDatasetIds: [],
};

/**
 * - `ok`: as it should be.
 * - `warning`: works, and may not for long or not as wished.
 * - `trouble`: in the way of a catch-up.
 * - `skipped`: not looked at; `found` says why.
 */
export type FindingState = 'ok' | 'warning' | 'problem' | 'skipped';

export interface Finding {
  /** What was looked at, in a word or two: `certificate`. */
  readonly about: string;
  readonly state: FindingState;
  /** What was found there; for people. */
  readonly found: string;
  /** What to do about it. */
  readonly hints: readonly string[];
  /** Those of a refusal, by their names. */
  readonly links: Readonly<Record<string, string>>;
  /** The exit code that a trouble stands for; 0 for everything else. */
  readonly exitCode: ExitCode;
}

export function ok(about: string, found: string): Finding {
  return finding('ok', about, found, []);
}

export function warning(about: string, found: string, ...hints: readonly string[]): Finding {
  return finding('warning', about, found, hints);
}

export function skipped(about: string, why: string): Finding {
  return finding('skipped', about, why, []);
}

export function problem(
  about: string,
  found: string,
  exitCode: ExitCode,
  ...hints: readonly string[]
): Finding {
  return { ...finding('problem', about, found, hints), exitCode };
}

/** An error as a finding: one of ours with its hint, any other as the bug it is. */
export function troubleOf(about: string, error: unknown): Finding {
  if (error instanceof RefusalError) return refusalFinding(about, error);
  if (error instanceof FeedSyncError) {
    return problem(about, error.message, exitCodeOf(error), ...(error.hint === null ? [] : [error.hint]));
  }
  const said = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return problem(about, `A bug in feed-sync: ${said}`, EXIT_CODES.bug, 'Report this.');
}

const NEW_KEY =
  'Set a key that is valid: they are made in the web application of the service (settings, API keys).';
const NEW_SCOPE =
  'Set a key that has the scope; for subscriptions, events, versions and schemas it is "feeds".';
const ACT = 'Nothing was stored of this refusal. Once you have acted on it: feed-sync doctor';

/** A refusal that doctor met itself: nothing is held for it, so there is nothing to resume. */
function refusalFinding(about: string, { refusal }: RefusalError): Finding {
  const { status, code, message, operation } = refusal;
  const answer = [status, code].filter((part) => part !== null).join(' ');
  const remedy = status === 401 ? NEW_KEY : code === 'insufficient_scope' ? NEW_SCOPE : ACT;
  const found = `The service refused to ${operation} (${answer}).\nIt says: ${message}`;
  const cause = possibleCause(refusal);
  const hints = [...(cause === null ? [] : [cause]), remedy];
  return {
    ...problem(about, found, EXIT_CODES.operatorMustAct, ...hints),
    links: Object.fromEntries(refusal.links),
  };
}

function finding(state: FindingState, about: string, found: string, hints: readonly string[]): Finding {
  return { about, state, found, hints, links: {}, exitCode: EXIT_CODES.caughtUp };
}

/** The code of the most urgent trouble; 0 where there is none. */
export function exitCodeOfAll(findings: readonly Finding[]): ExitCode {
  return mostUrgent(findings.map(({ exitCode }) => exitCode));
}

/** `1 dataset`, `2,000 datasets`. `one` makes its plural with an s. */
export function counted(count: number, one: string): string {
  return `${formatCount(count)} ${one}${count === 1 ? '' : 's'}`;
}
