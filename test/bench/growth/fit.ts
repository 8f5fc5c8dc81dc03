/** How a cost grows with a size: the exponent of the power that fits best. Pure. */

/** A size and what it cost; both above zero. */
export type SizeAndCost = readonly [size: number, cost: number];

export interface Exponents {
  /** Over all sizes. What every run costs, whatever its size, makes it small. */
  readonly overall: number;
  /** Over the upper half of the sizes, the middle one included: what growth is like where it matters. */
  readonly upperHalf: number;
}

/** Null where there are fewer than two sizes. */
export function exponents(points: readonly SizeAndCost[]): Exponents | null {
  const sorted = points.toSorted(([left], [right]) => left - right);
  const overall = slope(sorted);
  const upperHalf = slope(sorted.slice(Math.min(Math.floor(sorted.length / 2), sorted.length - 2)));
  return overall === null || upperHalf === null ? null : { overall, upperHalf };
}

/** Least squares through the logarithms: 1 is linear. Null where the points determine no line. */
function slope(points: readonly SizeAndCost[]): number | null {
  const logarithms = points.map(([size, cost]) => [Math.log(size), Math.log(cost)] as const);
  const meanX = mean(logarithms.map(([x]) => x));
  const meanY = mean(logarithms.map(([, y]) => y));
  const spreadOfX = logarithms.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
  const together = logarithms.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  return spreadOfX > 0 ? together / spreadOfX : null;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
