/** Bodies as they arrive: nothing that arrived is lost, and nothing arrives faster than it is read. */

import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { arrivedChunks } from '../../src/feed/http/body.ts';

async function readAll(chunks: AsyncIterable<Buffer>) {
  const read: Buffer[] = [];
  try {
    for await (const chunk of chunks) read.push(chunk);
    return { text: Buffer.concat(read).toString(), error: null };
  } catch (error) {
    return { text: Buffer.concat(read).toString(), error };
  }
}

describe('arrivedChunks', () => {
  it('yields a body in order, to its end', async () => {
    expect(await readAll(arrivedChunks(Readable.from([Buffer.from('a'), Buffer.from('b')])))).toEqual({
      text: 'ab',
      error: null,
    });
    expect(await readAll(arrivedChunks(Readable.from([])))).toEqual({ text: '', error: null });
  });

  it('yields all chunks that arrived before an error, and then throws the error', async () => {
    const body = new Readable({ read() {} });
    const chunks = arrivedChunks(body);
    body.push('one');
    body.push('two');
    await nextTurn();
    const failure = new Error('cut');
    body.destroy(failure);
    await nextTurn();
    expect(await readAll(chunks)).toEqual({ text: 'onetwo', error: failure });
  });

  it('throws when the body is closed before its end', async () => {
    const body = new Readable({ read() {} });
    const chunks = arrivedChunks(body);
    body.destroy();
    expect((await readAll(chunks)).error).toBeInstanceOf(Error);
  });

  it('makes a fast service wait for a slow reader', async () => {
    const PIECES = 50;
    let produced = 0;
    const body = new Readable({
      highWaterMark: 1,
      read() {
        produced += 1;
        this.push(produced > PIECES ? null : Buffer.alloc(100_000, produced));
      },
    });
    const chunks = arrivedChunks(body);
    while (!body.isPaused() && produced <= PIECES) await nextTurn();
    for (let turns = 0; turns < 20; turns += 1) await nextTurn();
    expect(produced).toBeLessThan(15);
    const { text } = await readAll(chunks);
    expect(text).toHaveLength(PIECES * 100_000);
  });

  it('destroys a body that is abandoned in the middle', async () => {
    const body = Readable.from([Buffer.from('a'), Buffer.from('b')]);
    for await (const chunk of arrivedChunks(body)) {
      expect(chunk.length).toBeGreaterThan(0);
      break;
    }
    expect(body.destroyed).toBe(true);
  });
});
