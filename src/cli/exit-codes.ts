/** The exit codes: part of the program's interface, for cron jobs, systemd units and Kubernetes. */

import { errorEntryOf } from '../model/errors.ts';

export const EXIT_CODES = {
  caughtUp: 0,
  wrongUsage: 64,
  dataFault: 65,
  bug: 70,
  storageFault: 74,
  tryAgainLater: 75,
  operatorMustAct: 77,
  wrongConfiguration: 78,
} as const;

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

/** Where several codes apply, the first in this list wins. */
export const BY_URGENCY: readonly ExitCode[] = [
  EXIT_CODES.bug,
  EXIT_CODES.storageFault,
  EXIT_CODES.wrongConfiguration,
  EXIT_CODES.operatorMustAct,
  EXIT_CODES.wrongUsage,
  EXIT_CODES.tryAgainLater,
  EXIT_CODES.dataFault,
];

export function exitCodeOf(error: unknown): ExitCode {
  return errorEntryOf(error).exitCode;
}

/** Returns the most urgent code; 0 where there is none. */
export function mostUrgent(codes: readonly ExitCode[]): ExitCode {
  return BY_URGENCY.find((code) => codes.includes(code)) ?? EXIT_CODES.caughtUp;
}

export const EXIT_CODES_HELP = `Exit codes:
  0   caught up                        75  try again later (service unreachable, mirror busy, interrupted)
  64  wrong usage                      77  an operator must act (the summary says how)
  65  bad data of a dataset            78  wrong configuration
  70  a bug in feed-sync               Where several apply: 70, 74, 78, 77, 64, 75, 65, the first that does.
  74  a fault of the local disk`;
