/** Whether a ratio is still what it was. */

/** What was recorded, by the names of the cases. */
export interface Recorded {
  /** RFC 3339, of the newest. */
  readonly measuredAt: string;
  readonly machine: string;
  /** Seconds of the program to seconds of the other side, medians; of another measure under `case measure`. */
  readonly ratios: Readonly<Record<string, number>>;
}

/** So much worse than recorded is a step back, and not noise. Of seconds, which other work of the machine moves most: */
const WORST_FACTOR = 2;
const WORST_FACTOR_OF_CPU = 1.5;
/** Of requests, bytes and memory. */
const WORST_FACTOR_OF_COUNTS = 1.25;
const MOST_TIMES = 3;

export interface Judgement {
  readonly isGood: boolean;
  /** A line of text for each measure. */
  readonly text: string;
}

/** What is measured of a case, by the names under which it is recorded. */
export type Measured = Readonly<Record<string, number>>;

/** The name under which a measure of a case is recorded: a ratio of seconds has that of its case. */
export function recordedName(caseName: string, measure: string): string {
  return measure === 'ratio' ? caseName : `${caseName} ${measure}`;
}

export function judgeRatio(name: string, ratio: number, recorded: Recorded): Judgement {
  const before = recorded.ratios[name];
  if (before === undefined) {
    return {
      isGood: false,
      text: `${name}: nothing is recorded of it; npm run bench:check -- --record does.`,
    };
  }
  const factor = worstFactor(name);
  const limit = before * factor;
  const isGood = ratio <= limit;
  const standing = isGood ? 'is within' : 'is above';
  const text = `${name}: ${ratio.toFixed(2)} ${standing} ${limit.toFixed(2)}, ${factor} times the recorded ${before.toFixed(2)}.`;
  return { isGood, text };
}

/** By the name under which it is recorded. A lock lasts for some time, too. */
function worstFactor(name: string): number {
  const [, measure = 'ratio'] = name.split(' ');
  if (measure === 'ratio' || measure === 'lockMsRatio') return WORST_FACTOR;
  return measure === 'cpuRatio' ? WORST_FACTOR_OF_CPU : WORST_FACTOR_OF_COUNTS;
}

/** What fails is measured again: something else may have kept the machine busy. What has become slower fails every time. */
export async function judgeCase(measure: () => Promise<Measured>, recorded: Recorded): Promise<Judgement> {
  let judged = judgeAll(await measure(), recorded);
  for (let times = 1; times < MOST_TIMES && !judged.isGood; times += 1)
    judged = judgeAll(await measure(), recorded);
  return judged;
}

function judgeAll(measured: Measured, recorded: Recorded): Judgement {
  const judged = Object.entries(measured).map(([name, ratio]) => judgeRatio(name, ratio, recorded));
  return {
    isGood: judged.every(({ isGood }) => isGood),
    text: judged.map(({ text }) => text).join('\n'),
  };
}
