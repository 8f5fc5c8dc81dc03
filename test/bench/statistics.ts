/** From samples to numbers that can be compared. Pure. */

import type { Goal, Sample } from './case.ts';

/** A subject's sample with the reference's that ran right after it. */
export interface Pair {
  readonly subject: Sample;
  readonly reference: Sample | null;
}

export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

export interface SideSummary {
  readonly seconds: Spread;
  readonly cpuSeconds: Spread;
  readonly peakMegabytes: Spread;
  readonly counts: Readonly<Record<string, Spread>>;
}

export interface Summary {
  readonly subject: SideSummary;
  readonly reference: SideSummary | null;
  /** Of the seconds, pair by pair, so that what disturbs the machine for a while weighs on both sides. */
  readonly ratio: Spread | null;
  /** Of the CPU seconds, pair by pair: it says more where the machine is busy. */
  readonly cpuRatio: Spread | null;
  /** Of the peaks of memory and of every count that both sides have, pair by pair, by name. */
  readonly otherRatios: Readonly<Record<string, Spread>>;
}

export interface JudgedGoal extends Goal {
  readonly value: number;
  readonly reached: boolean;
}

export function summarize(pairs: readonly Pair[]): Summary {
  const references = pairs.flatMap(({ reference }) => reference ?? []);
  const ratioOf = (measure: (sample: Sample) => number | undefined): Spread | null => {
    const ratios = pairs.flatMap(({ subject, reference }) => {
      const [ours, theirs] = [measure(subject), reference === null ? undefined : measure(reference)];
      return ours === undefined || theirs === undefined ? [] : [ours / theirs];
    });
    return ratios.length === 0 ? null : spread(ratios);
  };
  const others: readonly [string, Spread | null][] = [
    ['peakMegabytes', ratioOf(({ peakMegabytes }) => peakMegabytes)],
    ...Object.keys(references[0]?.counts ?? {}).map((name): [string, Spread | null] => [
      name,
      ratioOf(({ counts }) => counts[name]),
    ]),
  ];
  return {
    subject: summarizeSide(pairs.map(({ subject }) => subject)),
    reference: references.length === 0 ? null : summarizeSide(references),
    ratio: ratioOf(({ seconds }) => seconds),
    cpuRatio: ratioOf(({ cpuSeconds }) => cpuSeconds),
    otherRatios: Object.fromEntries(
      others.flatMap(([name, ratio]) => (ratio === null ? [] : [[name, ratio]])),
    ),
  };
}

/** @throws RangeError where a goal names a measure that the case does not have. */
export function judge(goals: readonly Goal[], summary: Summary): readonly JudgedGoal[] {
  return goals.map((goal) => {
    const value = medianOf(goal.measure, summary);
    return { ...goal, value, reached: value <= goal.atMost };
  });
}

/**
 * The median of a measure by its name, as in `Goal`. Of what both sides have, "peakMegabytesRatio" is the ratio, and so
 * with every count. @throws RangeError where the case does not have it.
 */
export function medianOf(measure: string, { subject, ratio, cpuRatio, otherRatios }: Summary): number {
  const { counts, ...measured } = subject;
  const measures = new Map<string, Spread>(Object.entries({ ...counts, ...measured }));
  if (ratio !== null) measures.set('ratio', ratio);
  if (cpuRatio !== null) measures.set('cpuRatio', cpuRatio);
  for (const [name, other] of Object.entries(otherRatios)) measures.set(`${name}Ratio`, other);
  const value = measures.get(measure)?.median;
  if (value !== undefined) return value;
  const known = [...measures.keys()].join(', ');
  throw new RangeError(`There is no measure "${measure}" in this case; there are ${known}.`);
}

/** @throws RangeError where there are no values. */
export function spread(values: readonly number[]): Spread {
  return { median: median(values), least: Math.min(...values), most: Math.max(...values) };
}

/** The middle value; of an even number of values the mean of the two in the middle. @throws RangeError where there are none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.ceil(sorted.length / 2) - 1];
  if (upper === undefined || lower === undefined) throw new RangeError('There is no median of no values.');
  return (lower + upper) / 2;
}

function summarizeSide(samples: readonly Sample[]): SideSummary {
  const names = new Set(samples.flatMap(({ counts }) => Object.keys(counts)));
  const countsOf = (name: string): number[] => samples.flatMap(({ counts }) => counts[name] ?? []);
  return {
    seconds: spread(samples.map(({ seconds }) => seconds)),
    cpuSeconds: spread(samples.map(({ cpuSeconds }) => cpuSeconds)),
    peakMegabytes: spread(samples.map(({ peakMegabytes }) => peakMegabytes)),
    counts: Object.fromEntries([...names].map((name) => [name, spread(countsOf(name))])),
  };
}
