import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { WriteBehind } from '../../src/feed/download/write-behind.ts';
import { StorageError } from '../../src/model/errors.ts';

const MANY = 200;
const CHUNK_BYTES = 65_536;
/** More than may wait. */
const TOO_MANY_BYTES = 5_000_000;

function chunk(number: number): Buffer {
  return Buffer.alloc(CHUNK_BYTES, number);
}

/** A disk that is full once so many pieces were written; a piece may be cut. */
function fullAfter(pieces: number, file: FileHandle): FileHandle {
  let written = 0;
  const appendFile = async (bytes: Buffer): Promise<void> => {
    written += 1;
    if (written <= pieces) return file.appendFile(bytes);
    await file.appendFile(bytes.subarray(0, 7));
    throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC', syscall: 'write' });
  };
  return { appendFile } as unknown as FileHandle;
}

async function opened() {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-behind-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'part');
  return { path, file: await open(path, 'w') };
}

describe('bytes that are written behind', () => {
  it('are all there in their order once they are flushed', async () => {
    const { path, file } = await opened();
    const behind = new WriteBehind(file, path);
    const chunks = Array.from({ length: MANY }, (_, number) => chunk(number));
    for (const each of chunks) await behind.write(each);
    await behind.flush();
    await file.close();
    expect(readFileSync(path).equals(Buffer.concat(chunks))).toBe(true);
  });

  it('are on their way at once, however few they are', async () => {
    const { path, file } = await opened();
    const behind = new WriteBehind(file, path);
    await behind.write(Buffer.from('few'));
    await expect.poll(() => readFileSync(path, 'utf8')).toBe('few');
    await behind.flush();
    await file.close();
  });

  it('end with what could be written, and who flushes is told', async () => {
    const { path, file } = await opened();
    const behind = new WriteBehind(fullAfter(1, file), path);
    await behind.write(Buffer.from('a beginning'));
    await behind.flush();
    await behind.write(Buffer.from(' that goes on'));
    await expect(behind.flush()).rejects.toThrow(StorageError);
    await behind.write(Buffer.from(' and on'));
    await expect(behind.flush()).rejects.toThrow('The disk is full');
    await file.close();
    expect(readFileSync(path, 'utf8')).toBe('a beginning that g');
  });

  it('are not collected without end where they cannot be written', async () => {
    const { path, file } = await opened();
    const behind = new WriteBehind(fullAfter(0, file), path);
    const giveMany = async (): Promise<void> => {
      for (let bytes = 0; bytes < TOO_MANY_BYTES; bytes += CHUNK_BYTES) await behind.write(chunk(1));
    };
    await expect(giveMany()).rejects.toThrow('The disk is full');
    await file.close();
  });
});
