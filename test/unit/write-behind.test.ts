import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { WriteBehind } from '../../src/feed/download/receive-file.ts';
import { StorageError } from '../../src/model/errors.ts';

const MANY = 200;
const CHUNK_BYTES = 65_536;
/** More than may wait. */
const TOO_MANY_BYTES = 5_000_000;
/** After so many bytes the file is synced. */
const SYNCED_AFTER_BYTES = 16_000_000;

function chunk(number: number): Buffer {
  return Buffer.alloc(CHUNK_BYTES, number);
}

/** A disk that is full once so often was written to; then what is given is cut. */
function fullAfter(writes: number, file: FileHandle): FileHandle {
  let written = 0;
  const writev = async (pieces: readonly Buffer[]) => {
    written += 1;
    if (written <= writes) return file.writev(pieces);
    await file.appendFile(Buffer.concat(pieces).subarray(0, 7));
    return { bytesWritten: 7 };
  };
  const appendFile = async (): Promise<void> => {
    throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC', syscall: 'write' });
  };
  return { writev, appendFile } as unknown as FileHandle;
}

/** A disk that takes fewer bytes than it is given, as it may. */
function reluctant(file: FileHandle): FileHandle {
  const writev = async (pieces: readonly Buffer[]) => {
    const bytes = Buffer.concat(pieces);
    const bytesWritten = Math.min(bytes.length, CHUNK_BYTES + 7);
    await file.appendFile(bytes.subarray(0, bytesWritten));
    return { bytesWritten };
  };
  const appendFile = (bytes: Buffer): Promise<void> => file.appendFile(bytes);
  return { writev, appendFile } as unknown as FileHandle;
}

async function opened() {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-behind-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'part');
  return { path, file: await open(path, 'w') };
}

describe('the write-behind buffer', () => {
  it.each([
    ['a disk that takes all bytes', (file: FileHandle) => file],
    ['a disk that takes fewer bytes at once', reluctant],
  ])('writes all bytes in their order before a flush ends, to %s', async (_, disk) => {
    const { path, file } = await opened();
    const behind = new WriteBehind(disk(file), path);
    const chunks = Array.from({ length: MANY }, (_, number) => chunk(number));
    for (const each of chunks) await behind.write(each);
    await behind.flush();
    await file.close();
    expect(readFileSync(path).equals(Buffer.concat(chunks))).toBe(true);
  });

  it('starts to write at once, however few the bytes are', async () => {
    const { path, file } = await opened();
    const behind = new WriteBehind(file, path);
    await behind.write(Buffer.from('few'));
    await expect.poll(() => readFileSync(path, 'utf8')).toBe('few');
    await behind.flush();
    await file.close();
  });

  it('stops at a full disk, keeps the bytes that fit, and fails the flush', async () => {
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

  it('syncs while it writes, and reports a failed sync', async () => {
    const { path, file } = await opened();
    let synced = 0;
    const datasync = async (): Promise<void> => {
      synced += 1;
      throw Object.assign(new Error('EIO'), { code: 'EIO', syscall: 'fdatasync' });
    };
    const failing = { writev: (pieces: Buffer[]) => file.writev(pieces), datasync } as unknown as FileHandle;
    const behind = new WriteBehind(failing, path);
    for (let bytes = 0; bytes < 2 * SYNCED_AFTER_BYTES; bytes += CHUNK_BYTES) await behind.write(chunk(1));
    await expect(behind.flush()).rejects.toThrow(StorageError);
    expect(synced).toBe(1);
    await file.close();
  });

  it('collects a bounded number of bytes where the disk takes none', async () => {
    const { path, file } = await opened();
    const behind = new WriteBehind(fullAfter(0, file), path);
    const giveMany = async (): Promise<void> => {
      for (let bytes = 0; bytes < TOO_MANY_BYTES; bytes += CHUNK_BYTES) await behind.write(chunk(1));
    };
    await expect(giveMany()).rejects.toThrow('The disk is full');
    await file.close();
  });
});
