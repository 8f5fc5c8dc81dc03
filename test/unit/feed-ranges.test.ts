/** Ranges side by side: the pure decisions, and how many ranges are under way, without a network. */

import pLimit from 'p-limit';
import { describe, expect, it } from 'vitest';
import { fewerAtOnce, isFaster, rangeBytesFor } from '../../src/feed/download/ranges.ts';
import {
  RangeRefused,
  RangeSlots,
  type RangeTools,
  sideBySide,
} from '../../src/feed/download/side-by-side.ts';
import { TransientError } from '../../src/feed/http/failures.ts';
import { silentLog } from '../../src/lib/log.ts';
import { instantClock } from '../support/feed-client.ts';

const LIMITS = {
  fromBytes: 0,
  atOnce: 4,
  maxRangeBytes: 1_000,
  minRangeBytes: 100,
  rangeMs: 2_000,
  slowestRangeMs: 30_000,
  measureMs: 1_000,
  worthMs: 5_000,
};

describe('the decision for ranges', () => {
  it.each([
    ['arrives soon', 4_999, { bytes: 1_000, ms: 1_000 }, null],
    ['takes long', 5_001, { bytes: 1_000, ms: 1_000 }, 1_000],
    ['takes long by a slow stream', 5_001, { bytes: 200, ms: 1_000 }, 400],
    ['takes long over a slow line', 5_001, { bytes: 49, ms: 1_000 }, null],
    ['takes for ever, because the stream stands still', 5_001, { bytes: 0, ms: 1_000 }, null],
  ])('decides about a rest that %s', (_, restBytes, one, rangeBytes) => {
    expect(rangeBytesFor(restBytes, one, LIMITS)).toBe(rangeBytes);
  });

  it('judges ranges faster only where they bring a quarter more', () => {
    const one = { bytes: 100, ms: 1_000 };
    expect([124, 125].map((bytes) => isFaster({ bytes, ms: 1_000 }, one))).toEqual([false, true]);
  });

  it('requests half as many ranges at once after a failure, and none after a refusal', () => {
    expect([6, 3, 2, 1].map((atOnce) => fewerAtOnce(atOnce, 'broken'))).toEqual([3, 1, 1, 1]);
    expect(fewerAtOnce(6, 'refused')).toBe(1);
  });
});

const TOTAL = 10_000;
const CONTENT = Buffer.from(Array.from({ length: TOTAL }, (_, index) => index % 251));
const MOST_CONNECTIONS = 8;

interface Far {
  readonly tools: RangeTools;
  /** Every request for a range. */
  readonly opened: { readonly from: number; readonly end: number }[];
  readonly slots: RangeSlots;
  /** Bytes that the stream of the file has given. */
  streamed: number;
  /** The stream fails at this byte. */
  breaksAt: number;
  readonly body: AsyncGenerator<Buffer>;
}

/** A file of which the stream brings `bytesPerSecond`, and ranges, which `open` may change, come at once. */
function farFile(
  bytesPerSecond: number,
  open: (from: number, end: number) => Buffer = (from, end) => CONTENT.subarray(from, end),
): Far {
  const clock = instantClock();
  const files = pLimit(1);
  void files(() => new Promise(() => {}));
  const slots = new RangeSlots(files, 1, MOST_CONNECTIONS);
  const { signal } = new AbortController();
  const backoff = { baseDelayMs: 1, maxDelayMs: 1 };
  const breadth = { atOnce: LIMITS.atOnce };
  const tools = {
    limits: LIMITS,
    breadth,
    slots,
    clock,
    random: { next: () => 1 },
    backoff,
    log: silentLog,
    signal,
  };
  const opened: Far['opened'] = [];
  const slowly = async function* (from: number): AsyncGenerator<Buffer> {
    const bytes = bytesPerSecond / 10;
    for (let at = from; at < TOTAL; at += bytes) {
      await clock.sleep(100);
      if (at >= far.breaksAt) throw new TransientError('replaced by the next connection');
      far.streamed += bytes;
      yield CONTENT.subarray(at, at + bytes);
    }
  };
  const file = {
    stream: slowly(0),
    fromByte: 0,
    totalBytes: TOTAL,
    async open(from: number, end: number) {
      opened.push({ from, end });
      if (end - from > LIMITS.maxRangeBytes) return slowly(from);
      const bytes = open(from, end);
      return (async function* () {
        yield bytes;
      })();
    },
  };
  const far: Far = { tools, opened, slots, streamed: 0, breaksAt: TOTAL, body: sideBySide(file, tools) };
  return far;
}

async function readAll(body: AsyncGenerator<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe('F16: ranges of a file', () => {
  it('yields the bytes of all ranges in order', async () => {
    const { body, opened, tools } = farFile(500);
    expect((await readAll(body)).equals(CONTENT)).toBe(true);
    expect(opened.length).toBeGreaterThan(4);
    expect(tools.breadth.atOnce).toBe(LIMITS.atOnce);
  });

  it('requests no more ranges than may be under way, however long nobody takes their bytes', async () => {
    const { body, opened, streamed } = farFile(500);
    expect(streamed).toBe(0);
    while (opened.length === 0) await body.next();
    for (let turn = 0; turn < 100; turn += 1) await new Promise(setImmediate);
    expect(opened).toHaveLength(LIMITS.atOnce - 1);
    await body.return(undefined);
  });

  it('gives every connection back, also where the reader stops early', async () => {
    const { body, opened, slots } = farFile(500);
    while (opened.length < 5) await body.next();
    await body.return(undefined);
    // The file itself has the last one.
    expect(Array.from({ length: MOST_CONNECTIONS }, () => slots.take())).toEqual([
      ...Array.from({ length: MOST_CONNECTIONS - 1 }, () => true),
      false,
    ]);
  });

  it('yields what came before a range that fails, and its first bytes, and then its error', async () => {
    const failing = (from: number, end: number): Buffer => {
      if (end <= 5_000) return CONTENT.subarray(from, end);
      if (end - from < LIMITS.maxRangeBytes) throw new TransientError('cut');
      return CONTENT.subarray(from, from + 10);
    };
    const { body, tools } = farFile(500, failing);
    const chunks: Buffer[] = [];
    const all = async (): Promise<void> => {
      for await (const chunk of body) chunks.push(chunk);
    };
    await expect(all()).rejects.toThrow('cut');
    const arrived = Buffer.concat(chunks);
    expect(arrived.length).toBeGreaterThan(4_000);
    expect(arrived.equals(CONTENT.subarray(0, arrived.length))).toBe(true);
    expect(tools.breadth.atOnce).toBe(LIMITS.atOnce / 2);
  });

  it('requests fewer ranges at once where the stream breaks off beside them', async () => {
    const far = farFile(500);
    far.breaksAt = 1_500;
    await expect(readAll(far.body)).rejects.toThrow('replaced');
    expect(far.tools.breadth.atOnce).toBe(LIMITS.atOnce / 2);
    const alone = farFile(500);
    alone.breaksAt = 100;
    await expect(readAll(alone.body)).rejects.toThrow('replaced');
    expect(alone.tools.breadth.atOnce).toBe(LIMITS.atOnce);
  });

  it('does not take more bytes than a range has', async () => {
    const { body, tools } = farFile(500, (from, end) => Buffer.alloc(end - from + 1));
    expect((await readAll(body)).equals(CONTENT)).toBe(true);
    expect(tools.breadth.atOnce).toBe(1);
  });

  it('goes on in the stream where the first range is refused', async () => {
    const far = farFile(500, () => {
      throw new RangeRefused('no ranges');
    });
    expect((await readAll(far.body)).equals(CONTENT)).toBe(true);
    expect(far.streamed).toBe(TOTAL);
    expect(far.opened).toHaveLength(LIMITS.atOnce - 1);
  });

  it('returns to one stream where ranges are not faster', async () => {
    let clock: ReturnType<typeof instantClock> | null = null;
    const far = farFile(500, (from, end) => {
      void clock?.sleep(((end - from) * 1_000) / 500);
      return CONTENT.subarray(from, end);
    });
    clock = far.tools.clock as ReturnType<typeof instantClock>;
    expect((await readAll(far.body)).equals(CONTENT)).toBe(true);
    expect(far.tools.breadth.atOnce).toBe(1);
    expect(far.opened.at(-1)?.end).toBe(TOTAL);
    expect(far.opened.length).toBeLessThan(3 * LIMITS.atOnce);
  });
});

describe('the connections of ranges', () => {
  it('lets fewer files begin while ranges are under way, and no range while files wait', async () => {
    const files = pLimit(2);
    const slots = new RangeSlots(files, 2, 3);
    const ends: (() => void)[] = [];
    const begin = (): void => void files(() => new Promise<void>((resolve) => ends.push(resolve)));
    begin();
    await new Promise(setImmediate);
    expect([slots.take(), slots.take(), slots.take()]).toEqual([true, true, false]);
    begin();
    await new Promise(setImmediate);
    expect(ends).toHaveLength(1);
    slots.giveBack();
    expect(slots.take()).toBe(false);
    await new Promise(setImmediate);
    expect(ends).toHaveLength(2);
    expect(slots.take()).toBe(false);
  });
});
