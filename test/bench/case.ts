/**
 * What a benchmark is: a case is data, so that adding one is adding a file and a line in cases.ts.
 *
 * Invariant: subject and reference do the same work on the same files, each in a process of its own that is measured
 * from its start to its end, and whoever runs them checks what they left behind. A daemon is measured while it runs.
 */

/** `quick` shows in seconds that a case works; only `full` measures anything. */
export type Size = 'full' | 'quick';

export interface BenchCase {
  readonly name: string;
  /** One line of text: what the program does in this case. */
  readonly what: string;
  readonly reach: readonly Goal[];
  /** `--only` takes the name of a group, too. */
  readonly group?: 'peers' | 'postgres';
  /** At most so many pairs, and none to warm up: where a run takes minutes, or repeats inside itself. */
  readonly fewRuns?: number;
  /** Why it cannot run here, to the end of "not run: "; null where it can. Without this it runs everywhere. */
  whyNot?(): string | null;
  /** Makes what both sides work on. `workspace` is an empty folder of this case's own. `rows`: of `--rows`, where the case has it. */
  validate(size: Size, workspace: string, rows?: number): Promise<Contest>;
}

/** What a measure is to reach. A measure of the program is a median over the runs. */
export interface Goal {
  /**
   * `ratio`, `cpuRatio`, `seconds`, `cpuSeconds`, `peakMegabytes`, or the name of a count of the case; with "Ratio" behind
   * the name, a peak or a count beside the reference's.
   */
  readonly measure: string;
  readonly atMost: number;
  readonly moonshot?: number;
}

export interface Contest extends AsyncDisposable {
  /** feed-sync, once from scratch. @throws WrongResultError */
  subject(): Promise<Sample>;
  /** The least that could be done instead, once from scratch; null where there is nothing to compare with. */
  readonly reference: (() => Promise<Sample>) | null;
}

/** One measured run of one side. */
export interface Sample {
  /** From before the process is started until it has ended; in cases of a running daemon, of one repetition. */
  readonly seconds: number;
  /** Of all threads and of processes that it waited for, user and system; of a running daemon, of one repetition. */
  readonly cpuSeconds: number;
  /** Of the process, over its whole life. */
  readonly peakMegabytes: number;
  /** What else the case counts, by name. */
  readonly counts: Readonly<Record<string, number>>;
  /** Where the run repeats inside itself: what each repetition measured, by name, in order. */
  readonly repetitions?: Readonly<Record<string, readonly number[]>>;
}

/** A run that did not do its work: its time means nothing, so the whole bench fails. */
export class WrongResultError extends Error {
  override readonly name = 'WrongResultError';
}
