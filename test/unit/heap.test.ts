import { expect, it } from 'vitest';
import { giveBackHeap } from '../../src/staging/engine/heap.ts';

const GARBAGE = 400_000;

it('gives the memory of garbage back to the system, and keeps what is in use', async () => {
  const kept = new WeakRef(Buffer.alloc(1_000_000));
  const inUse = { rows: Array.from({ length: 1_000 }, (_, row) => ({ row })) };
  let garbage: unknown[] | null = Array.from({ length: GARBAGE }, (_, row) => ({ row, text: `${row}` }));
  expect(garbage).toHaveLength(GARBAGE);
  garbage = null;
  const before = process.memoryUsage().heapTotal;
  await giveBackHeap();
  expect(kept.deref()).toBeUndefined();
  expect(process.memoryUsage().heapTotal).toBeLessThan(before - GARBAGE * 20);
  expect(inUse.rows.at(-1)).toEqual({ row: 999 });
});
