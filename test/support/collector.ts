/** A stream that keeps what is written to it. */

import { Writable } from 'node:stream';

export function collector(): Writable & { text(): string } {
  const chunks: string[] = [];
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string | Uint8Array, _encoding, done) {
      chunks.push(typeof chunk === 'string' ? chunk : new TextDecoder().decode(chunk));
      done();
    },
  });
  return Object.assign(stream, { text: () => chunks.join('') });
}
