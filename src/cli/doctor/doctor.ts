/**
 * `feed-sync doctor`: looks at everything that a catch-up needs, and says what to do about what is in its way.
 *
 * Invariants: it changes nothing, makes no file and takes no lock, so it works beside a running instance and before
 * anything is there; a wrong configuration is one of its findings; no secret is in what it says.
 */

import { inspectConfiguration } from '../../configuration/inspect.ts';
import type { LoadInput } from '../../configuration/load.ts';
import type { Context } from '../context.ts';
import type { ExitCode } from '../exit-codes.ts';
import { proxyOf } from '../feed-options.ts';
import { jsonText } from '../json.ts';
import { write } from '../terminal.ts';
import { CHECKS } from './checks.ts';
import { masked } from './masking.ts';
import { runChecks } from './run-checks.ts';
import { renderDiagnosis } from './text.ts';
import { diagnosisOf } from './view.ts';

export interface DoctorOptions {
  /** Of feed-sync. */
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
