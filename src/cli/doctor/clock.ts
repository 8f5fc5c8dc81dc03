/** Our clock beside that of the service: webhooks that seem to be minutes old are refused. */

import type { AnswerSeen } from '../../feed/http/connection-probe.ts';
import { formatDuration } from '../../lib/units.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import type { Check } from './check.ts';
import { type Finding, ok, skipped, trouble, warning } from './findings.ts';

const LIMIT_MS = 1_000;
const WARNING_FROM_MS = 60_000;
/** Standard Webhooks: a signature whose time is further off is not accepted. */
const TROUBLE_FROM_MS = 5 * 60_000;
/** The header tells seconds, and cuts off the rest. */
const RESOLUTION_MS = 1_000;

export const clockCheck: Check = {
  name: 'clock',
  limitMs: LIMIT_MS,
  run: (_patient, { answer }) => ({ findings: [judgeClock(answer)] }),
};

/** What is to be said of the clock. Pure. */
export function judgeClock(answer: AnswerSeen | null): Finding {
  const about = 'clock';
  if (answer === null) return skipped(about, 'There is no answer of the service that could tell its time.');
  if (answer.serviceTime === null) return skipped(about, 'The service did not tell its time (header Date).');
  const aheadMs = answer.ourTime.getTime() - answer.serviceTime.getTime();
  const skewMs = Math.abs(aheadMs);
  if (skewMs < WARNING_FROM_MS) {
    const within =
      skewMs <= 2 * RESOLUTION_MS
        ? 'as that of the service'
        : `${formatDuration(skewMs)} off that of the service`;
    return ok(about, within);
  }
  const found = `Our clock is ${formatDuration(skewMs)} ${aheadMs > 0 ? 'ahead of' : 'behind'} that of the service.`;
  const hint = 'Set the clock of this machine, best by NTP.';
  if (skewMs < TROUBLE_FROM_MS) return warning(about, found, hint);
  return trouble(about, `${found} Webhooks are refused from 5 minutes on.`, EXIT_CODES.tryAgainLater, hint);
}
