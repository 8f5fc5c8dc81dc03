import { describe, expect, it } from 'vitest';
import { unlessStopped } from '../../src/feed/http/failures.ts';
import { DataError, InterruptedError } from '../../src/model/errors.ts';

const never = new Promise<never>(() => {});

describe('unlessStopped', () => {
  it('resolves and rejects as the work does', async () => {
    const { signal } = new AbortController();
    expect(await unlessStopped(Promise.resolve('done'), signal)).toBe('done');
    await expect(unlessStopped(Promise.reject(new DataError('bad')), signal)).rejects.toThrow('bad');
  });

  it('rejects once the signal is aborted, while the work goes on', async () => {
    const stop = new AbortController();
    const waited = unlessStopped(never, stop.signal);
    stop.abort();
    await expect(waited).rejects.toThrow(InterruptedError);
  });

  it('rejects with the error that the signal was aborted with, and swallows a later error of the work', async () => {
    const signal = AbortSignal.abort(new InterruptedError('Another file failed.'));
    const failing = Promise.reject(new DataError('bad'));
    await expect(unlessStopped(failing, signal)).rejects.toThrow('Another file failed.');
    await expect(unlessStopped(never, signal)).rejects.toThrow('Another file failed.');
  });
});
