/** Reads the body of a request up to a limit. */

import type { IncomingMessage } from 'node:http';
import { MAX_BODY_BYTES } from './limits.ts';

/**
 * The bytes as they came; null where they are more than `MAX_BODY_BYTES`. The rest is then passed over, for as long as a
 * request may take, so that the answer is read by who sends it.
 * @throws when the connection ends before the body does.
 */
export async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return null;
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
