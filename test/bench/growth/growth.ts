/** Measures what each size of an axis costs, and says how that grows. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sample, Size } from '../case.ts';
import { median } from '../statistics.ts';
import type { Axis } from './axes.ts';
import { type Exponents, exponents } from './fit.ts';

/** What is fitted, by the names in a point. */
export const MEASURES = ['seconds', 'cpuSeconds', 'peakMegabytes', 'mirrorMegabytes'] as const;
export type Measure = (typeof MEASURES)[number];

/** Medians of the samples. */
export interface Point extends Readonly<Record<Measure, number>> {
  readonly amount: number;
  /** RFC 3339. */
  readonly measuredAt: string;
  readonly samples: readonly Sample[];
}

export interface AxisGrowth {
  readonly axis: string;
  readonly job: string;
  readonly what: string;
  /** By amount. */
  readonly points: readonly Point[];
  /** Null where there are too few points. */
  readonly exponents: Readonly<Record<Measure, Exponents>> | null;
}

/** @throws WrongResultError */
export async function measurePoint(axis: Axis, amount: number, size: Size, runs: number): Promise<Point> {
  const workspace = await mkdtemp(join(tmpdir(), `feed-sync-growth-${axis.name}-`));
  try {
    await using contest = await axis.validate(amount, size, workspace);
    const samples: Sample[] = [];
    for (let run = 0; run < runs; run += 1) samples.push(await contest.subject());
    return pointOf(amount, samples);
  } finally {
    await rm(workspace, { recursive: true, force: true });
  }
}

export function pointOf(amount: number, samples: readonly Sample[]): Point {
  return {
    amount,
    measuredAt: new Date().toISOString(),
    seconds: median(samples.map(({ seconds }) => seconds)),
    cpuSeconds: median(samples.map(({ cpuSeconds }) => cpuSeconds)),
    peakMegabytes: median(samples.map(({ peakMegabytes }) => peakMegabytes)),
    mirrorMegabytes: median(samples.map(({ counts }) => counts['mirrorMegabytes'] ?? Number.NaN)),
    samples,
  };
}

/** What was measured before goes on to count, but for the amounts that were measured again. Pure. */
export function growthOf(axis: Axis, earlier: readonly Point[], measured: readonly Point[]): AxisGrowth {
  const byAmount = new Map([...earlier, ...measured].map((point) => [point.amount, point]));
  const points = [...byAmount.values()].sort((left, right) => left.amount - right.amount);
  const { name, job, what } = axis;
  return { axis: name, job, what, points, exponents: exponentsOf(points) };
}

function exponentsOf(points: readonly Point[]): AxisGrowth['exponents'] {
  const fitted: [Measure, Exponents][] = [];
  for (const measure of MEASURES) {
    const fit = exponents(points.map((point) => [point.amount, point[measure]]));
    if (fit === null) return null;
    fitted.push([measure, fit]);
  }
  return Object.fromEntries(fitted) as Record<Measure, Exponents>;
}
