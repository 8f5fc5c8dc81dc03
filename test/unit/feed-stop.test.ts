import { describe, expect, it } from 'vitest';
import { unlessStopped } from '../../src/feed/http/failures.ts';
import { DataError, InterruptedError } from '../../src/model/errors.ts';

const never = new Promise<never>(() => {});

describe('work that is waited for unless it is stopped', () => {
  it('gives what it gives, and fails as it fails', async () => {
    const { signal } = new AbortController();
    expect(await unlessStopped(Promise.resolve('done'), signal)).toBe('done');
    await expect(unlessStopped(Promise.reject(new DataError('bad')), signal)).rejects.toThrow('bad');
  });

  it('is waited for no more once the signal is aborted', async () => {
    const stop = new AbortController();
    const waited = unlessStopped(never, stop.signal);
    stop.abort();
    await expect(waited).rejects.toThrow(InterruptedError);
  });

  it('ends with the error that the signal was aborted with, and its own trouble is nobody’s any more', async () => {
    const signal = AbortSignal.abort(new InterruptedError('Another file failed.'));
    const failing = Promise.reject(new DataError('bad'));
    await expect(unlessStopped(failing, signal)).rejects.toThrow('Another file failed.');
    await expect(unlessStopped(never, signal)).rejects.toThrow('Another file failed.');
  });
});
