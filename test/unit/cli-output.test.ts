/** The end of a command whose result or messages cannot be written. */

import { Writable } from 'node:stream';
import { expect, it } from 'vitest';
import { write, writeMessage } from '../../src/cli/context.ts';

/** A stream that takes nothing, as a screen or not. */
function refusing(code: string, isTTY = false): NodeJS.WritableStream {
  const stream = new Writable({
    autoDestroy: false,
    write: (_chunk, _encoding, done) => done(Object.assign(new Error(code), { code })),
  });
  stream.on('error', () => {});
  return Object.assign(stream, { isTTY });
}

it.each([
  ['a pipe that nobody reads', refusing('EPIPE')],
  ['a socket whose reader left something unread', refusing('ECONNRESET')],
  ['a terminal that is gone', refusing('EIO', true)],
])('writing a result to %s is no error', async (_, stream) => {
  expect(await write(stream, 'a result')).toBe(false);
});

it.each([
  ['a full disk', 'ENOSPC'],
  ['a disk that fails', 'EIO'],
])('writing a result to %s is an error, and a message beside the result is none', async (_, code) => {
  await expect(write(refusing(code), 'a result')).rejects.toMatchObject({ code: 'storage_failed' });
  await expect(writeMessage({ stderr: refusing(code) }, 'a message')).resolves.toBeUndefined();
});
