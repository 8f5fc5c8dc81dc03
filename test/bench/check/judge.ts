/** Whether a ratio is still what it was. */

/** What was recorded, by the names of the cases. */
export interface Recorded {
  /** RFC 3339. */
  readonly measuredAt: string;
  readonly machine: string;
  /** Seconds of the program to seconds of raw DuckDB, medians. */
  readonly ratios: Readonly<Record<string, number>>;
}

/** So much worse than recorded is a step back, and not noise. */
export const WORST_FACTOR = 2;
const MOST_TIMES = 3;

export interface Judgement {
  readonly isGood: boolean;
  /** One line of text. */
  readonly text: string;
}

export function judgeRatio(name: string, ratio: number, recorded: Recorded): Judgement {
  const before = recorded.ratios[name];
  if (before === undefined) {
    return {
      isGood: false,
      text: `${name}: nothing is recorded of it; npm run bench:check -- --record does.`,
    };
  }
  const limit = before * WORST_FACTOR;
  const isGood = ratio <= limit;
  const standing = isGood ? 'is within' : 'is above';
  const text = `${name}: ${ratio.toFixed(2)} of raw DuckDB ${standing} ${limit.toFixed(2)}, twice the recorded ${before.toFixed(2)}.`;
  return { isGood, text };
}

/** What fails is measured again: something else may have kept the machine busy. What has become slower fails every time. */
export async function judgeCase(
  name: string,
  measure: () => Promise<number>,
  recorded: Recorded,
): Promise<Judgement> {
  let judged = judgeRatio(name, await measure(), recorded);
  for (let times = 1; times < MOST_TIMES && !judged.isGood; times += 1)
    judged = judgeRatio(name, await measure(), recorded);
  return judged;
}
