/** The input and the result of a check of `doctor`. */

import type { InstanceHolder } from '../../checkpoint/instance-lock.ts';
import type { Inspection } from '../../configuration/configuration.ts';
import type { ObservedState } from '../../destination/destination.ts';
import type { AnswerSeen } from '../../feed/http/connection-check.ts';
import { formatCount } from '../../lib/units.ts';
import { FeedSyncError, RefusalError } from '../../model/errors.ts';
import type { Subscription } from '../../model/records.ts';
import type { CheckpointContent } from '../../reporting/stores.ts';
import { possibleCause } from '../../sync/incidents.ts';
import type { Context } from '../context.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf, mostUrgent } from '../exit-codes.ts';

/** The names of the checks, in the order in which they run and are reported. Programs rely on them. */
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
  /** The time limit of the check; a check that exceeds it is reported as too slow. */
  readonly limitMs: number;
  /** Any error it throws becomes a finding, and stops no other check. */
  run(checkInput: CheckInput, facts: Facts, signal: AbortSignal): Promise<Checked> | Checked;
}

export interface Checked {
  readonly findings: readonly Finding[];
  /** Facts for later checks. */
  readonly facts?: Partial<Facts>;
}

/** The objects of the checks. */
export interface CheckInput {
  /** The version of feed-sync. */
  readonly version: string;
  readonly inspection: Inspection;
  readonly context: Context;
}

/** The facts that earlier checks found out, for later ones; null: unknown. */
export interface Facts {
  readonly checkpoint: CheckpointContent | null;
  readonly mirror: ObservedState | null;
  readonly runningInstance: InstanceHolder | null;
  /** The response of the service to a request without a key. */
  readonly answer: AnswerSeen | null;
  /** Whether the service responded over a trusted connection. */
  readonly isReachable: boolean;
  /** The subscriptions that the key can see. */
  readonly subscriptions: readonly Subscription[] | null;
  /** Some datasets that a manifest lists. */
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
 * `ok`: no fault. `warning`: works, but maybe not for long or not as wished. `problem`: an obstacle of a catch-up. `skipped`: not
 * checked; `found` says why.
 */
export type FindingState = 'ok' | 'warning' | 'problem' | 'skipped';

export interface Finding {
  /** The subject of the finding, in a word or two: `certificate`. */
  readonly about: string;
  readonly state: FindingState;
  /** The finding, for people. */
  readonly found: string;
  /** Remedies. */
  readonly hints: readonly string[];
  /** The links of a refusal, by their names. */
  readonly links: Readonly<Record<string, string>>;
  /** The exit code of a problem; 0 for every other state. */
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

/** Turns an error into a finding: one of feed-sync's with its hint, any other as the bug it is. */
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

/** A refusal of doctor's own request suspends nothing, so there is nothing to resume. */
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

/** Returns the code of the most urgent problem; 0 where there is none. */
export function exitCodeOfAll(findings: readonly Finding[]): ExitCode {
  return mostUrgent(findings.map(({ exitCode }) => exitCode));
}

/** Returns `1 dataset`, `2,000 datasets`. `one` forms its plural with an s. */
export function counted(count: number, one: string): string {
  return `${formatCount(count)} ${one}${count === 1 ? '' : 's'}`;
}
