/**
 * `feed-sync doctor`: checks everything that a catch-up needs, and names the remedies of problems.
 *
 * Invariants: it changes nothing, creates no file and takes no lock, so it works beside a running instance and before
 * anything exists; a
 * wrong configuration is one of its findings; its output contains no secret.
 */

import { inspectConfiguration } from '../../configuration/configuration.ts';
import type { LoadInput } from '../../configuration/resolve.ts';
import { struckOut } from '../../lib/secret.ts';
import { formatDuration } from '../../lib/units.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { proxyOf } from '../operator-session.ts';
import { jsonText } from '../render/table.ts';
import {
  type Check,
  type Checked,
  type CheckInput,
  type CheckName,
  type Facts,
  type Finding,
  NO_FACTS,
  problem,
  troubleOf,
} from './check.ts';
import { checkpointCheck } from './checkpoint.ts';
import { configurationCheck, versionsCheck } from './configuration.ts';
import { diskCheck } from './disk.ts';
import { locksCheck, mirrorCheck } from './mirror.ts';
import { diagnosisOf, renderDiagnosis } from './render.ts';
import { scopesCheck, subscriptionsCheck } from './scopes.ts';
import { clockCheck, connectionCheck, contractCheck, keyCheck } from './service.ts';

export interface DoctorOptions {
  /** The version of feed-sync. */
  readonly version: string;
  readonly json: boolean;
}

/** @throws InterruptedError */
export async function doctor(
  input: LoadInput,
  context: Context,
  { version, json }: DoctorOptions,
): Promise<ExitCode> {
  const inspection = inspectConfiguration(input);
  const checks = await runChecks(CHECKS, { version, inspection, context });
  const secrets = secretsOf(inspection.configuration?.service.apiKey.reveal() ?? null, context);
  const diagnosis = masked(diagnosisOf(checks, inspection), secrets);
  await write(context.terminal.stdout, json ? jsonText(diagnosis) : `${renderDiagnosis(diagnosis)}\n`);
  return diagnosis.exitCode;
}

function secretsOf(apiKey: string | null, { environment }: Context): readonly string[] {
  const proxies = Object.values(proxyOf(environment)).flatMap((text) => {
    const url = text === null ? null : URL.parse(text);
    return url === null || url.password === '' ? [] : [url.password, decodeURIComponent(url.password)];
  });
  return apiKey === null ? proxies : [apiKey, ...proxies];
}

export const CHECKS: readonly Check[] = [
  versionsCheck,
  configurationCheck,
  diskCheck,
  locksCheck,
  checkpointCheck,
  mirrorCheck,
  connectionCheck,
  clockCheck,
  keyCheck,
  contractCheck,
  scopesCheck,
  subscriptionsCheck,
];

export interface FindingsOfCheck {
  readonly check: CheckName;
  readonly findings: readonly Finding[];
}

/** @throws the reason of the context's signal once that is aborted. */
export async function runChecks(
  checks: readonly Check[],
  checkInput: CheckInput,
): Promise<readonly FindingsOfCheck[]> {
  const results: FindingsOfCheck[] = [];
  let facts: Facts = NO_FACTS;
  for (const check of checks) {
    const checked = await runOne(check, checkInput, facts);
    checkInput.context.signal.throwIfAborted();
    facts = { ...facts, ...checked.facts };
    results.push({ check: check.name, findings: checked.findings });
  }
  return results;
}

async function runOne(check: Check, checkInput: CheckInput, facts: Facts): Promise<Checked> {
  const limit = AbortSignal.timeout(check.limitMs);
  const stop = AbortSignal.any([checkInput.context.signal, limit]);
  const work = async (): Promise<Checked> => check.run(checkInput, facts, stop);
  try {
    return await Promise.race([work(), tooLong(check, limit)]);
  } catch (error) {
    return { findings: [limit.aborted ? tooLongFinding(check) : troubleOf(check.name, error)] };
  }
}

/** Also ends a check whose work ignores its signal, because it waits for the system. */
function tooLong(check: Check, limit: AbortSignal): Promise<Checked> {
  return new Promise((resolve) => {
    limit.addEventListener('abort', () => resolve({ findings: [tooLongFinding(check)] }));
  });
}

function tooLongFinding({ name, limitMs }: Check): Finding {
  const found = `Not finished within ${formatDuration(limitMs)}, and given up.`;
  const hint = 'Try again; if it stays so, what it waits for hangs.';
  return problem(name, found, EXIT_CODES.tryAgainLater, hint);
}

/** Returns a copy of `value`, which contains texts, numbers, lists and plain objects, with the secrets masked in every text. */
export function masked<Value>(value: Value, secrets: readonly string[]): Value {
  return JSON.parse(JSON.stringify(value), (_key, part: unknown) =>
    typeof part === 'string' ? struckOut(part, secrets) : part,
  );
}
