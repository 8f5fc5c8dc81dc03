/**
 * Makes checks one after another. Its invariant: each of them gives findings, whatever happens to it; only a wish to
 * stop ends them all.
 */

import { formatDuration } from '../../lib/units.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import {
  type Check,
  type Checked,
  type CheckName,
  type Learned,
  NOTHING_LEARNED,
  type Patient,
} from './check.ts';
import { type Finding, trouble, troubleOf } from './findings.ts';

export interface FindingsOfCheck {
  readonly check: CheckName;
  readonly findings: readonly Finding[];
}

/** @throws the reason of the context's signal once that is aborted. */
export async function runChecks(
  checks: readonly Check[],
  patient: Patient,
): Promise<readonly FindingsOfCheck[]> {
  const results: FindingsOfCheck[] = [];
  let learned: Learned = NOTHING_LEARNED;
  for (const check of checks) {
    const checked = await runOne(check, patient, learned);
    patient.context.signal.throwIfAborted();
    learned = { ...learned, ...checked.learned };
    results.push({ check: check.name, findings: checked.findings });
  }
  return results;
}

async function runOne(check: Check, patient: Patient, learned: Learned): Promise<Checked> {
  const limit = AbortSignal.timeout(check.limitMs);
  const stop = AbortSignal.any([patient.context.signal, limit]);
  const work = async (): Promise<Checked> => check.run(patient, learned, stop);
  try {
    return await Promise.race([work(), tooLong(check, limit)]);
  } catch (error) {
    return { findings: [limit.aborted ? tooLongFinding(check) : troubleOf(check.name, error)] };
  }
}

/** Also where the work heeds no signal, because it waits for the system. */
function tooLong(check: Check, limit: AbortSignal): Promise<Checked> {
  return new Promise((resolve) => {
    limit.addEventListener('abort', () => resolve({ findings: [tooLongFinding(check)] }));
  });
}

function tooLongFinding({ name, limitMs }: Check): Finding {
  const found = `Not finished within ${formatDuration(limitMs)}, and given up.`;
  const hint = 'Try again; if it stays so, what it waits for hangs.';
  return trouble(name, found, EXIT_CODES.tryAgainLater, hint);
}
