/**
 * What `doctor` tells, as data: the shape of `doctor --json`, which programs rely on; fields and checks are only ever
 * added. Pure.
 */

import type { InspectedSetting, Inspection } from '../../configuration/inspect.ts';
import type { ExitCode } from '../exit-codes.ts';
import type { CheckName } from './check.ts';
import { exitCodeOfAll, type Finding } from './findings.ts';
import type { FindingsOfCheck } from './run-checks.ts';

export interface Diagnosis {
  readonly checks: readonly {
    readonly check: CheckName;
    /** At least one. */
    readonly findings: readonly Finding[];
  }[];
  /** Every setting with its value and the source of that. */
  readonly settings: readonly InspectedSetting[];
  readonly troubles: number;
  readonly warnings: number;
  readonly skipped: number;
  /** The one that the command ends with. */
  readonly exitCode: ExitCode;
}

export function diagnosisOf(checks: readonly FindingsOfCheck[], { settings }: Inspection): Diagnosis {
  const all = checks.flatMap(({ findings }) => findings);
  const count = (state: Finding['state']): number => all.filter((one) => one.state === state).length;
  return {
    checks,
    settings,
    troubles: count('trouble'),
    warnings: count('warning'),
    skipped: count('skipped'),
    exitCode: exitCodeOfAll(all),
  };
}
