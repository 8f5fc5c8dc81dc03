/** The input and the result of a check of `doctor`. */

import type { InstanceHolder } from '../../checkpoint/instance-lock.ts';
import type { Configuration, Inspection } from '../../configuration/configuration.ts';
import type { SettingKey } from '../../configuration/schema.ts';
import type { ObservedState } from '../../destination/destination.ts';
import type { AccessCheck } from '../../feed/access-check.ts';
import type { AnswerSeen } from '../../feed/http/connection-check.ts';
import { sourceStack } from '../../lib/source-stack.ts';
import { ASK_DOCTOR, FeedSyncError, RefusalError } from '../../model/errors.ts';
import type { Subscription } from '../../model/records.ts';
import type { CheckpointContent } from '../../reporting/stores.ts';
import { possibleCause } from '../../sync/incidents.ts';
import { type Suspensions, suspensionsAmong } from '../../sync/suspensions.ts';
import type { Context } from '../context.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf } from '../exit-codes.ts';
import { statusAndCode } from '../render/messages.ts';
import { keyHashOf } from '../service-client.ts';

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
  /** Uses the facts of earlier checks and adds its own. Any error it throws becomes a finding, and stops no other check. */
  run(facts: Facts, signal: AbortSignal): Promise<readonly Finding[]> | readonly Finding[];
}

/** The objects of the checks, and the facts that the checks find out about them; null: unknown. */
export interface Facts {
  /** The version of feed-sync. */
  readonly version: string;
  readonly inspection: Inspection;
  readonly context: Context;
  checkpoint: CheckpointContent | null;
  mirror: ObservedState | null;
  runningInstance: InstanceHolder | null;
  /** The response of the service to a request without a key. */
  answer: AnswerSeen | null;
  /** Whether the service responded over a trusted connection. */
  isReachable: boolean;
  /** Opened by the first check that asks the service with the key, closed after the last check. */
  access: AccessCheck | null;
  /** The subscriptions that the key can see. */
  subscriptions: readonly Subscription[] | null;
  /** Some datasets that a manifest or an event names. */
  listedDatasetIds: readonly string[];
}

/** Returns the facts before the first check. */
export function factsAbout(given: Pick<Facts, 'version' | 'inspection' | 'context'>): Facts {
  return {
    ...given,
    checkpoint: null,
    mirror: null,
    runningInstance: null,
    answer: null,
    isReachable: false,
    access: null,
    subscriptions: null,
    listedDatasetIds: [],
  };
}

/** Returns the suspensions of the checkpoint that count for this configuration. */
export function suspensionsOf(
  checkpoint: CheckpointContent | null,
  configuration: Configuration | null,
): Suspensions {
  const keyHash = configuration === null ? null : keyHashOf(configuration.service);
  return suspensionsAmong(checkpoint?.suspensions ?? [], keyHash, checkpoint?.candidates ?? []);
}

/**
 * The state of a finding. `ok`: no fault. `warning`: works, but maybe not for long or not as wished. `problem`: an obstacle of a catch-up.
 * `skipped`: not checked; `found` says why.
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
  return { about, state: 'ok', found, hints: [], links: {}, exitCode: EXIT_CODES.caughtUp };
}

export function warning(about: string, found: string, ...hints: readonly string[]): Finding {
  return { ...ok(about, found), state: 'warning', hints };
}

export function skipped(about: string, why: string): Finding {
  return { ...ok(about, why), state: 'skipped' };
}

/** Skips what cannot be checked without a setting. */
export function notKnown(about: string, setting: SettingKey): Finding {
  return skipped(about, `${setting} is not known.`);
}

export function problem(
  about: string,
  found: string,
  exitCode: ExitCode,
  ...hints: readonly string[]
): Finding {
  return { ...ok(about, found), state: 'problem', hints, exitCode };
}

/** Turns an error into a finding: one of feed-sync's with its hint, any other as the bug it is. */
export function findingOf(about: string, error: unknown): Finding {
  if (error instanceof RefusalError) return refusalFinding(about, error);
  if (error instanceof FeedSyncError) {
    const { hint } = error;
    const hints = hint === null || hint === ASK_DOCTOR ? [] : [hint];
    return problem(about, error.message, exitCodeOf(error), ...hints);
  }
  const said = error instanceof Error ? sourceStack(error) : String(error);
  return problem(about, `A bug in feed-sync: ${said}`, EXIT_CODES.bug, 'Report this.');
}

const NEW_KEY =
  'Set a key that is valid: they are made in the web application of the service (settings, API keys).';
const NEW_SCOPE =
  'Set a key that has the scope; for subscriptions, events, versions and schemas it is "feeds".';
const ACT = 'Nothing was stored of this refusal. Once you have acted on it: feed-sync doctor';

/** A refusal of doctor's own request suspends nothing, so there is nothing to resume. */
function refusalFinding(about: string, { refusal }: RefusalError): Finding {
  const { status, code, message, operation, links } = refusal;
  const remedy = status === 401 ? NEW_KEY : code === 'insufficient_scope' ? NEW_SCOPE : ACT;
  const found = `The service refused to ${operation} (${statusAndCode(refusal)}).\nIt says: ${message}`;
  const cause = possibleCause(refusal);
  const hints = [...(cause === null ? [] : [cause]), remedy];
  return {
    ...problem(about, found, EXIT_CODES.operatorMustAct, ...hints),
    links: Object.fromEntries(links),
  };
}
