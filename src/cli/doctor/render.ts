/** Renders `doctor` for people. Pure. */

import type { InspectedSetting, Inspection } from '../../configuration/configuration.ts';
import { printable } from '../../lib/text.ts';
import type { ExitCode } from '../exit-codes.ts';
import { type CheckName, exitCodeOfAll, type Finding, type FindingState } from './check.ts';
import type { FindingsOfCheck } from './doctor.ts';

const WORDS: Readonly<Record<FindingState, string>> = {
  ok: 'ok',
  warning: 'WARNING',
  problem: 'PROBLEM',
  skipped: 'skipped',
};

export function renderDiagnosis(diagnosis: Diagnosis): string {
  const { checks, settings } = diagnosis;
  const widths = { state: widest(Object.values(WORDS)), about: widest(checks.flatMap(aboutOfAll)) };
  const sections = checks.map(({ check, findings }) =>
    [
      check,
      ...findings.flatMap((one) => findingLines(one, widths)),
      ...(check === 'configuration' ? ['', ...settingLines(settings)] : []),
    ].join('\n'),
  );
  return [...sections, headline(diagnosis)].join('\n\n');
}

interface Widths {
  readonly state: number;
  readonly about: number;
}

function findingLines({ state, about, found, hints, links }: Finding, widths: Widths): readonly string[] {
  const margin = `  ${' '.repeat(widths.state)}  ${' '.repeat(widths.about)}  `;
  const [first = '', ...more] = found.split('\n').map(printable);
  return [
    `  ${WORDS[state].padEnd(widths.state)}  ${printable(about).padEnd(widths.about)}  ${first}`.trimEnd(),
    ...more.map((line) => `${margin}${line}`),
    ...Object.entries(links).map(([name, url]) => `${margin}${printable(name)}: ${printable(url)}`),
    ...hints.map((hint) => `${margin}→ ${printable(hint)}`),
  ];
}

/** A setting has no state of its own: its problem is a finding above. */
function settingLines(settings: readonly InspectedSetting[]): readonly string[] {
  const width = widest(settings.map(({ key }) => key));
  return settings.map(({ key, value, source, fault }) => {
    const shown = fault === null ? value : (value ?? 'wrong');
    const from = shown === null ? source : `${printable(shown)} (${printable(source)})`;
    return `    ${key.padEnd(width)}  ${from}`;
  });
}

function headline({ problems, warnings, skipped }: Diagnosis): string {
  const counts = [
    ...(problems > 0 ? [counted(problems, 'problem', 'problems')] : []),
    ...(warnings > 0 ? [counted(warnings, 'warning', 'warnings')] : []),
    ...(skipped > 0 ? [`${skipped} not looked at`] : []),
  ];
  return counts.length === 0 ? 'Everything is as it should be.' : `${counts.join(', ')}.`;
}

function counted(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

function aboutOfAll({ findings }: Diagnosis['checks'][number]): readonly string[] {
  return findings.map(({ about }) => printable(about));
}

function widest(texts: readonly string[]): number {
  return Math.max(0, ...texts.map(({ length }) => length));
}

export interface Diagnosis {
  readonly checks: readonly {
    readonly check: CheckName;
    /** At least one. */
    readonly findings: readonly Finding[];
  }[];
  /** Every setting with its value and the source of the value. */
  readonly settings: readonly InspectedSetting[];
  readonly problems: number;
  readonly warnings: number;
  readonly skipped: number;
  /** The exit code of the command. */
  readonly exitCode: ExitCode;
}

export function diagnosisOf(checks: readonly FindingsOfCheck[], { settings }: Inspection): Diagnosis {
  const all = checks.flatMap(({ findings }) => findings);
  const count = (state: Finding['state']): number => all.filter((one) => one.state === state).length;
  return {
    checks,
    settings,
    problems: count('problem'),
    warnings: count('warning'),
    skipped: count('skipped'),
    exitCode: exitCodeOfAll(all),
  };
}
