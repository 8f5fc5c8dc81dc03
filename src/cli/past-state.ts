/** The options by which an operator names an earlier state of a table. */

import { Option } from 'commander';
import { parseIsoTime } from '../lib/units.ts';
import { UsageError } from '../model/errors.ts';
import type { PastState } from '../model/past-states.ts';

export const TIME = 'ISO 8601, in UTC where it has no offset; a date means its start';

/** Returns `--from-version`, `--from-commit` and `--from-time`, or the same for `to`. */
export function pastStateOptions(side: 'from' | 'to', what: string): readonly Option[] {
  const [version, commit, time] = FLAGS[side];
  return [
    new Option(version, `${what}, by version: the newest commit that reached it`),
    new Option(commit, `${what}, by its number in feed_sync.commits`),
    new Option(time, `${what}, by a time: ${TIME}`),
  ];
}

const FLAGS = {
  from: ['--from-version <n>', '--from-commit <n>', '--from-time <time>'],
  to: ['--to-version <n>', '--to-commit <n>', '--to-time <time>'],
} as const;

/** The flags, as commander names them: `fromVersion`. */
export type PastStateFlags = Readonly<Record<string, string | undefined>>;

/** Returns null where none of the three was given. @throws UsageError */
export function pastStateOf(side: 'from' | 'to', flags: PastStateFlags): PastState | null {
  const { [`${side}Version`]: version, [`${side}Commit`]: commit, [`${side}Time`]: time } = flags;
  const given = [version, commit, time].filter((value) => value !== undefined).length;
  if (given === 0) return null;
  if (given > 1) {
    throw new UsageError(`Only one of --${side}-version, --${side}-commit and --${side}-time can be given.`);
  }
  if (version !== undefined) return { by: 'version', version: numberOf(`--${side}-version`, version) };
  if (commit !== undefined) return { by: 'commit', commitNumber: numberOf(`--${side}-commit`, commit) };
  return { by: 'time', time: timeOf(`--${side}-time`, time ?? '') };
}

function numberOf(option: string, value: string): number {
  const number = /^\d+$/.test(value) ? Number(value) : Number.NaN;
  if (Number.isSafeInteger(number)) return number;
  throw new UsageError(`${option} is '${value}', which is not a whole number.`);
}

/** Returns the time that an option gives. @throws UsageError */
export function timeOf(option: string, value: string): Date {
  const time = parseIsoTime(value);
  if (time !== null) return time;
  throw new UsageError(`${option} is '${value}', which is not a time in ISO 8601.`, {
    hint: 'For example 2026-03-01, 2026-03-01T14:30 (in UTC) or 2026-03-01T14:30:00+02:00.',
  });
}
