/**
 * The bytes of a large file in their order, received by one stream, or, where one stream would take long, in several ranges side
 * by side.
 *
 * Invariants: the bytes are yielded from the first to the last, so whoever writes them appends only, and a part on the disk has no
 * holes. A range waits in memory until all bytes before it were yielded; there are never more ranges than slots. The stream
 * that came first is given up only when a range has arrived, so a service without ranges costs nothing.
 */

import type { LimitFunction } from 'p-limit';
import { type Backoff, backoffDelayMs, type Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { ContractViolationError, InterruptedError } from '../../model/errors.ts';
import type { LeastThroughput } from '../http/body.ts';
import { sleepUnlessStopped, TransientError } from '../http/failures.ts';
import type { RangeLimits } from '../http/options.ts';
import { fewerAtOnce, isFaster, rangeBytesFor, type Throughput } from './ranges.ts';

/** The service answered a request for a range with something else: it serves no ranges, or other content by now. */
export class RangeRefused extends TransientError {}

/** How many ranges of one file may be requested at once. It shrinks with failures, over all attempts to download the file. */
export interface Breadth {
  atOnce: number;
}

/** The rest of a file whose first bytes are about to arrive in one stream. */
export interface RangedFile {
  readonly stream: AsyncGenerator<Buffer>;
  readonly fromByte: number;
  readonly totalBytes: number;
  /**
   * Requests the bytes from `fromByte` up to but not including `endByte`. `least`: of a range; null: of the rest as one stream.
   * @throws RangeRefused, LinkExpired, TransientError
   */
  open(
    fromByte: number,
    endByte: number,
    least: LeastThroughput | null,
    signal: AbortSignal,
  ): Promise<AsyncGenerator<Buffer>>;
}

export interface RangeTools {
  readonly limits: RangeLimits;
  readonly breadth: Breadth;
  readonly slots: RangeSlots;
  readonly clock: Clock;
  readonly random: Random;
  readonly backoff: Backoff;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/**
 * The connections for ranges of all files, beside those of the files themselves. A file that waits comes first, so while ranges
 * are under way fewer further files begin.
 */
export class RangeSlots {
  readonly #files: LimitFunction;
  readonly #filesAtOnce: number;
  readonly #connections: number;
  #taken = 0;

  /** `files` limits the files at once, to `filesAtOnce` at most. `connections` are for files and ranges together. */
  constructor(files: LimitFunction, filesAtOnce: number, connections: number) {
    this.#files = files;
    this.#filesAtOnce = filesAtOnce;
    this.#connections = connections;
  }

  /** Returns false where no connection is left. */
  take(): boolean {
    const { activeCount, pendingCount } = this.#files;
    if (activeCount + pendingCount + this.#taken >= this.#connections) return false;
    this.#change(1);
    return true;
  }

  giveBack(): void {
    this.#change(-1);
  }

  #change(by: number): void {
    this.#taken += by;
    this.#files.concurrency = Math.max(1, Math.min(this.#filesAtOnce, this.#connections - this.#taken));
  }
}

/** Yields the bytes of the file. @throws the error of the stream, or that of the first range that failed, behind all bytes before it */
export function sideBySide(file: RangedFile, tools: RangeTools): AsyncGenerator<Buffer> {
  return new SideBySide(file, tools).bytes();
}

interface Range {
  readonly fromByte: number;
  /** Has room for all of its bytes: chunks of a service that sends single bytes would take many times as much memory. */
  readonly room: Buffer;
  /** How many of its bytes have arrived. */
  arrivedBytes: number;
  /** Resolves once no more bytes arrive: to null where all have arrived. */
  readonly ended: Promise<{ readonly error: unknown } | null>;
}

/** A range that breaks off is requested again from there, this many times. */
const MAX_REPETITIONS = 2;

class SideBySide {
  readonly #file: RangedFile;
  readonly #tools: RangeTools;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  /** The ranges that were requested and not yet yielded, in order. Each occupies a slot. */
  readonly #ahead: Range[] = [];
  #rangeBytes = 0;
  /** All bytes before this one were yielded. */
  #position: number;
  /** All bytes before this one were requested in ranges, or arrive in the stream. */
  #requestedTo = 0;
  /** Where and when the current measurement began. */
  #since = { position: 0, ms: 0 };

  constructor(file: RangedFile, tools: RangeTools) {
    this.#file = file;
    this.#tools = tools;
    this.#signal = AbortSignal.any([tools.signal, this.#stop.signal]);
    this.#position = file.fromByte;
  }

  async *bytes(): AsyncGenerator<Buffer> {
    const { totalBytes, stream } = this.#file;
    try {
      let one = yield* this.#oneStream(stream);
      while (one !== null) {
        yield* this.#ranges(one);
        if (this.#position === totalBytes) return;
        one = yield* this.#oneStream(await this.#file.open(this.#position, totalBytes, null, this.#signal));
      }
    } catch (error) {
      // Some services end a connection where the next one begins, so the stream beside ranges counts, too.
      if (this.#ahead.length > 0) this.#noteFailure(error);
      throw error;
    } finally {
      await this.#dropRanges();
    }
  }

  /** Returns null at the end of the stream, and its throughput where ranges go on in its place. */
  async *#oneStream(stream: AsyncGenerator<Buffer>): AsyncGenerator<Buffer, Throughput | null> {
    let one: Throughput | null = null;
    let isFirst = true;
    for await (const chunk of stream) {
      const [first] = this.#ahead;
      const before = first === undefined ? chunk : chunk.subarray(0, first.fromByte - this.#position);
      yield this.#pass(before);
      if (first?.fromByte === this.#position) {
        if (await this.#hasArrived(first)) return one;
        yield this.#pass(chunk.subarray(before.length));
      }
      // The time before the first bytes says nothing about those that follow.
      if (isFirst) this.#measureAnew();
      isFirst = false;
      if (this.#ahead.length === 0) one = this.#beginRanges();
    }
    if (this.#ahead.length === 0) return null;
    throw new TransientError('the file ended before its stated length');
  }

  /** Begins ranges ahead of the stream where that is worth it. Returns the throughput of the stream. */
  #beginRanges(): Throughput | null {
    const { limits, breadth, log } = this.#tools;
    const one = this.#measured();
    if (breadth.atOnce === 1 || one.ms < limits.measureMs) return null;
    this.#measureAnew();
    const rangeBytes = rangeBytesFor(this.#file.totalBytes - this.#position, one, limits);
    if (rangeBytes === null) return null;
    this.#rangeBytes = rangeBytes;
    this.#requestedTo = this.#position + rangeBytes;
    this.#requestRanges(breadth.atOnce - 1);
    if (this.#ahead.length > 0) log.debug({ rangeBytes }, 'Requesting ranges of a file side by side.');
    return one;
  }

  /**
   * Returns whether the first range beside the stream has arrived. Otherwise the stream goes on alone. @throws ContractViolationError: that
   * the service gives the key away is for an operator to know.
   */
  async #hasArrived(first: Range): Promise<boolean> {
    const failure = await first.ended;
    if (failure === null) return true;
    if (failure.error instanceof ContractViolationError) throw failure.error;
    await this.#dropRanges();
    this.#narrow(1, String(failure.error));
    return false;
  }

  /** Yields ranges until none is under way: at the end of the file, or where one stream is as good. */
  async *#ranges(one: Throughput): AsyncGenerator<Buffer> {
    const { breadth, slots } = this.#tools;
    const judgedFrom = this.#position + this.#rangeBytes * breadth.atOnce;
    let isJudged = false;
    for (let [range] = this.#ahead; range !== undefined; [range] = this.#ahead) {
      const failure = await range.ended;
      if (range.arrivedBytes > 0) yield this.#pass(range.room.subarray(0, range.arrivedBytes));
      if (failure !== null) throw failure.error;
      this.#ahead.shift();
      slots.giveBack();
      if (!isJudged && this.#position >= judgedFrom) {
        isJudged = true;
        if (!isFaster(this.#measured(), one)) this.#narrow(1, 'ranges are hardly faster than one stream');
      }
      if (breadth.atOnce > 1) this.#requestRanges(breadth.atOnce);
    }
  }

  /** The next attempt requests fewer ranges at once. */
  #noteFailure(error: unknown): void {
    if (!(error instanceof TransientError)) return;
    const isRefused = error instanceof RangeRefused || error.isThrottled;
    this.#narrow(fewerAtOnce(this.#tools.breadth.atOnce, isRefused ? 'refused' : 'broken'), error.message);
  }

  #narrow(atOnce: number, why: string): void {
    this.#tools.breadth.atOnce = atOnce;
    this.#tools.log.debug({ atOnce, why }, 'Requesting fewer ranges of a file at once.');
  }

  #requestRanges(most: number): void {
    const { totalBytes } = this.#file;
    while (this.#ahead.length < most && this.#requestedTo < totalBytes && this.#tools.slots.take()) {
      const fromByte = this.#requestedTo;
      this.#requestedTo = Math.min(fromByte + this.#rangeBytes, totalBytes);
      this.#ahead.push(this.#requestRange(fromByte, this.#requestedTo));
    }
  }

  #requestRange(fromByte: number, endByte: number): Range {
    const arriving = { fromByte, room: Buffer.allocUnsafeSlow(endByte - fromByte), arrivedBytes: 0 };
    const ended = this.#receive(arriving).then(
      () => null,
      (error: unknown) => ({ error }),
    );
    return Object.assign(arriving, { ended });
  }

  /** Receives a range, and requests its rest again where it breaks off. */
  async #receive(range: Omit<Range, 'ended'>): Promise<void> {
    const { clock, backoff, random, limits } = this.#tools;
    const { fromByte, room } = range;
    const endByte = fromByte + room.length;
    const bytesPerSecond = (this.#rangeBytes * 1_000) / limits.slowestRangeMs;
    const least = { bytesPerSecond, overMs: limits.slowestRangeMs / 3 };
    for (let failures = 0; range.arrivedBytes < room.length; ) {
      try {
        const nextByte = fromByte + range.arrivedBytes;
        for await (const chunk of await this.#file.open(nextByte, endByte, least, this.#signal)) {
          if (range.arrivedBytes + chunk.length > room.length)
            throw new RangeRefused('a range was longer than stated');
          chunk.copy(room, range.arrivedBytes);
          range.arrivedBytes += chunk.length;
        }
        if (range.arrivedBytes < room.length)
          throw new TransientError('a range ended before its stated length');
      } catch (error) {
        failures += 1;
        if (failures > MAX_REPETITIONS || !isWorthRepeating(error)) throw error;
        await sleepUnlessStopped(clock, backoffDelayMs(backoff, failures, random), this.#signal);
      }
    }
  }

  /** Stops all ranges, and resolves once their connections are free. */
  async #dropRanges(): Promise<void> {
    const dropped = this.#ahead.splice(0);
    this.#stop.abort(new InterruptedError('The ranges of a file are no longer needed.'));
    await Promise.all(dropped.map(({ ended }) => ended));
    for (const _ of dropped) this.#tools.slots.giveBack();
  }

  #pass(chunk: Buffer): Buffer {
    this.#position += chunk.length;
    return chunk;
  }

  #measureAnew(): void {
    this.#since = { position: this.#position, ms: this.#tools.clock.monotonicMs() };
  }

  #measured(): Throughput {
    const { position, ms } = this.#since;
    return { bytes: this.#position - position, ms: this.#tools.clock.monotonicMs() - ms };
  }
}

/** What the service said on purpose is not asked again, and neither is a wait that it asked for disturbed. */
function isWorthRepeating(error: unknown): boolean {
  if (!(error instanceof TransientError) || error instanceof RangeRefused) return false;
  return !error.isThrottled && error.retryAfterMs === null;
}
