/**
 * `feed-sync doctor`: checks everything that a catch-up needs, and names the remedies of problems.
 *
 * Invariants: it changes nothing, creates no file and takes no lock, so it works beside a running instance and before
 * anything exists; a wrong configuration is one of its findings; its output contains no secret.
 */

import {
  type InspectedSetting,
  type Inspection,
  inspectConfiguration,
} from '../../configuration/configuration.ts';
import type { LoadInput } from '../../configuration/resolve.ts';
import { deadlineIn } from '../../lib/clock.ts';
import { struckOut } from '../../lib/secret.ts';
import { printable } from '../../lib/text.ts';
import { formatDuration, plural } from '../../lib/units.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode, mostUrgent } from '../exit-codes.ts';
import { jsonText } from '../render/formats.ts';
import { proxyOf } from '../service-client.ts';
import { asking, askingFurther, checkContract, checkKey, checkScopes, checkSubscriptions } from './access.ts';
import {
  type Check,
  type CheckName,
  type Facts,
  type Finding,
  type FindingState,
  factsAbout,
  findingOf,
  problem,
} from './check.ts';
import { checkConfiguration, checkVersions } from './configuration.ts';
import { checkConnection, judgeClock } from './connection.ts';
import { setUpScriptFor } from './database.ts';
import { checkDisk } from './disk.ts';
import { checkCheckpoint, checkLocks, checkMirror } from './stores.ts';

const CHECKS: readonly Check[] = [
  { name: 'versions', limitMs: 5_000, run: checkVersions },
  { name: 'configuration', limitMs: 5_000, run: checkConfiguration },
  { name: 'disk', limitMs: 15_000, run: checkDisk },
  { name: 'locks', limitMs: 5_000, run: checkLocks },
  { name: 'checkpoint', limitMs: 15_000, run: checkCheckpoint },
  { name: 'mirror', limitMs: 30_000, run: checkMirror },
  { name: 'connection', limitMs: 30_000, run: checkConnection },
  { name: 'clock', limitMs: 1_000, run: ({ answer }) => [judgeClock(answer)] },
  { name: 'key', limitMs: 60_000, run: asking('key', checkKey) },
  { name: 'contract', limitMs: 60_000, run: askingFurther('names', checkContract) },
  { name: 'scopes', limitMs: 60_000, run: askingFurther('scopes', checkScopes) },
  { name: 'subscriptions', limitMs: 5_000, run: checkSubscriptions },
];

/** Checks everything and reports what is wrong. `version`: of feed-sync. @throws InterruptedError */
export async function doctor(
  input: LoadInput,
  context: Context,
  version: string,
  json: boolean,
): Promise<ExitCode> {
  const inspection = inspectConfiguration(input);
  const facts = factsAbout({ version, inspection, context });
  const checks = await runChecks(CHECKS, facts).finally(() => facts.access?.close());
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

/** Prints the script that makes role, database and schemas of `destination.url`. @throws ConfigurationError */
export async function printSetUp(input: LoadInput, context: Context): Promise<ExitCode> {
  const inspection = inspectConfiguration(input);
  const readers = inspection.known('destination.readers') ?? [];
  const rules = inspection.known('destination.schemas') ?? [];
  await write(context.terminal.stdout, setUpScriptFor(inspection.known('destination.url'), readers, rules));
  return EXIT_CODES.caughtUp;
}

interface FindingsOfCheck {
  readonly check: CheckName;
  /** At least one. */
  readonly findings: readonly Finding[];
}

/** Runs the checks. @throws the reason of the context's signal once that is aborted. */
export async function runChecks(checks: readonly Check[], facts: Facts): Promise<readonly FindingsOfCheck[]> {
  const results: FindingsOfCheck[] = [];
  for (const check of checks) {
    const findings = await runOne(check, facts);
    facts.context.signal.throwIfAborted();
    results.push({ check: check.name, findings });
  }
  return results;
}

async function runOne(check: Check, facts: Facts): Promise<readonly Finding[]> {
  const { over, signal } = deadlineIn(check.limitMs, facts.context.signal);
  const work = async () => check.run(facts, signal);
  // Also ends a check whose work ignores its signal, because it waits for the system.
  const tooLong = new Promise<readonly Finding[]>((resolve) => {
    over.addEventListener('abort', () => resolve([tooLongFinding(check)]));
  });
  try {
    return await Promise.race([work(), tooLong]);
  } catch (error) {
    return [over.aborted ? tooLongFinding(check) : findingOf(check.name, error)];
  }
}

function tooLongFinding({ name, limitMs }: Check): Finding {
  const found = `Not finished within ${formatDuration(limitMs)}, and given up.`;
  const hint = 'Try again. If that does not help, look for a disk, a lock or a server that does not answer.';
  return problem(name, found, EXIT_CODES.tryAgainLater, hint);
}

/** Returns a copy of `value`, which contains texts, numbers, lists and plain objects, with the secrets masked in every text. */
export function masked<Value>(value: Value, secrets: readonly string[]): Value {
  return JSON.parse(JSON.stringify(value), (_key, part: unknown) =>
    typeof part === 'string' ? struckOut(part, secrets) : part,
  );
}

export interface Diagnosis {
  readonly checks: readonly FindingsOfCheck[];
  /** Every setting with its value and the source of the value. */
  readonly settings: readonly InspectedSetting[];
  readonly problems: number;
  readonly warnings: number;
  readonly skipped: number;
  /** The exit code of the most urgent problem; 0 where there is none. */
  readonly exitCode: ExitCode;
}

export function diagnosisOf(
  checks: readonly FindingsOfCheck[],
  { settings }: Pick<Inspection, 'settings'>,
): Diagnosis {
  const all = checks.flatMap(({ findings }) => findings);
  const count = (state: FindingState): number => all.filter((one) => one.state === state).length;
  return {
    checks,
    settings,
    problems: count('problem'),
    warnings: count('warning'),
    skipped: count('skipped'),
    exitCode: mostUrgent(all.map(({ exitCode }) => exitCode)),
  };
}

const WORDS: Readonly<Record<FindingState, string>> = {
  ok: 'ok',
  warning: 'WARNING',
  problem: 'PROBLEM',
  skipped: 'skipped',
};
const STATE_WIDTH = widest(Object.values(WORDS));

export function renderDiagnosis({ checks, settings, problems, warnings, skipped }: Diagnosis): string {
  const all = checks.flatMap(({ findings }) => findings);
  const aboutWidth = widest(all.map(({ about }) => printable(about)));
  const sections = checks.map(({ check, findings }) =>
    [
      check,
      ...findings.flatMap((one) => findingLines(one, aboutWidth)),
      ...(check === 'configuration' ? ['', ...settingLines(settings)] : []),
    ].join('\n'),
  );
  const counts = [
    ...(problems > 0 ? [plural(problems, 'problem')] : []),
    ...(warnings > 0 ? [plural(warnings, 'warning')] : []),
    ...(skipped > 0 ? [`${skipped} not checked`] : []),
  ];
  const headline = counts.length === 0 ? 'Everything is as it should be.' : `${counts.join(', ')}.`;
  return [...sections, headline].join('\n\n');
}

function findingLines({ state, about, found, hints, links }: Finding, aboutWidth: number): readonly string[] {
  const margin = `  ${' '.repeat(STATE_WIDTH)}  ${' '.repeat(aboutWidth)}  `;
  const [first = '', ...more] = found.split('\n').map(printable);
  return [
    `  ${WORDS[state].padEnd(STATE_WIDTH)}  ${printable(about).padEnd(aboutWidth)}  ${first}`.trimEnd(),
    ...more.map((line) => `${margin}${line}`),
    ...Object.entries(links).map(([name, url]) => `${margin}${printable(name)}: ${printable(url)}`),
    ...hints.map((hint) => `${margin}→ ${printable(hint)}`),
  ];
}

/** A setting has no state of its own: its problem is a finding above. */
function settingLines(settings: readonly InspectedSetting[]): readonly string[] {
  const width = widest(settings.map(({ key }) => key));
  return settings.map(({ key, value, source, problem: why }) => {
    const shown = why === null ? value : (value ?? 'wrong');
    const from = shown === null ? source : `${printable(shown)} (${printable(source)})`;
    return `    ${key.padEnd(width)}  ${from}`;
  });
}

function widest(texts: readonly string[]): number {
  return Math.max(0, ...texts.map(({ length }) => length));
}
