/** The lasting conditions that an operator may have to act on: suspensions, failures, incidents, positions about to expire. */

import type { Failure, Followed, Suspension } from '../checkpoint/checkpoint.ts';
import { plural } from '../lib/units.ts';
import { ERRORS, type ErrorCode } from '../model/error-codes.ts';
import type { Condition } from '../model/notification.ts';
import { EVENTS_KEPT_MS, positionAgeMs } from '../sync/follow/subscriptions.ts';
import { waysOutOf } from '../sync/incidents.ts';
import type { Parts } from '../sync/parts.ts';
import { nameOfScope, suspensionsAmong } from '../sync/suspensions.ts';

const DAY_MS = 86_400_000;

/** Before the position in a log can expire, an operator is warned once at each of these times. */
export const EXPIRY_WARNINGS_MS = [30 * DAY_MS, 14 * DAY_MS, 3 * DAY_MS] as const;

export interface ReportedIncident {
  readonly of: string;
  readonly error: ErrorCode;
  /** Whether the incident has lasted, or does not pass by itself. */
  readonly isLoud: boolean;
}

/** Reads the current conditions. `incidents`: those that were raised; those of datasets say only whether a failure is loud. */
export function currentConditions(
  parts: Pick<Parts, 'checkpoint' | 'choices' | 'clock'>,
  incidents: readonly ReportedIncident[],
): readonly Condition[] {
  const { checkpoint, choices, clock } = parts;
  const { all } = suspensionsAmong(checkpoint.suspensions(), choices.keyHash, checkpoint.candidates());
  return conditionsOf({
    suspensions: all,
    failures: checkpoint.failures().values(),
    followed: checkpoint.followed().values(),
    incidents,
    now: clock.now(),
  });
}

export interface ConditionInput {
  /** The current suspensions. */
  readonly suspensions: readonly Suspension[];
  readonly failures: Iterable<Failure>;
  readonly followed: Iterable<Followed>;
  readonly incidents: readonly ReportedIncident[];
  readonly now: Date;
}

/** Returns the conditions of a state. Pure. */
export function conditionsOf(input: ConditionInput): readonly Condition[] {
  const { suspensions, failures, followed, incidents, now } = input;
  const loud = new Set(incidents.flatMap(({ of, isLoud }) => (isLoud ? [of] : [])));
  const ofDatasets = [...failures].map(({ datasetId, error }) => {
    const subject = `dataset ${datasetId}`;
    return failing(subject, error, loud.has(subject) || ERRORS[error].disposition === 'stop');
  });
  return [
    ...suspensions.map(suspended),
    ...incidents
      .filter(({ of }) => !of.startsWith('dataset '))
      .map(({ of, error, isLoud }) => failing(of, error, isLoud)),
    ...ofDatasets,
    ...[...followed].flatMap((one) => aboutToExpire(one, now)),
  ];
}

function suspended(suspension: Suspension): Condition {
  const { refusal, candidate } = suspension;
  const { scope, code, status, message } = refusal;
  const subject = nameOfScope(scope);
  return {
    kind: 'suspended',
    cause: code ?? (status === null ? scope.kind : `http_${status}`),
    key: candidate === undefined ? subject : `${subject} ${candidate.version} ${candidate.judged.digest}`,
    subject,
    text: message,
    advice: waysOutOf(suspension).join(' '),
    isLoud: true,
  };
}

/** The message of the error may quote a value of the data; its code says enough, and `status` has the message. */
function failing(subject: string, error: ErrorCode, isLoud: boolean): Condition {
  const { meaning, remedy, disposition } = ERRORS[error];
  // An error that passes by itself is one condition, however many datasets and subscriptions it strikes.
  const key = disposition === 'retry' ? '' : subject;
  return { kind: 'failing', cause: error, key, subject, text: meaning, advice: remedy, isLoud };
}

function aboutToExpire(followed: Followed, now: Date): readonly Condition[] {
  const ageMs = positionAgeMs(followed, now);
  const leftMs = EVENTS_KEPT_MS - ageMs;
  const warning = EXPIRY_WARNINGS_MS.findLast((beforeMs) => leftMs <= beforeMs);
  if (warning === undefined) return [];
  const subject = `subscription ${followed.subscriptionId}`;
  const days = (durationMs: number): number => Math.max(0, Math.floor(durationMs / DAY_MS));
  return [
    {
      kind: 'retention_near',
      cause: 'position',
      key: `${subject} ${days(warning)}`,
      subject,
      text: `no event for ${plural(days(ageMs), 'day')}; its position expires in ${plural(days(leftMs), 'day')} unless an event comes`,
      advice:
        'Once it has expired, feed-sync starts again from the manifest: tables that changes led on are loaded again.',
      isLoud: true,
    },
  ];
}
