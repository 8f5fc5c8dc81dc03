/** What is stored of an API key: a hash, by which a hold of the workspace is seen to be of another key. */

import { createHash } from 'node:crypto';
import type { Secret } from '../lib/secret.ts';

/** Tells one key from another and gives neither away. */
export function keyHashOf(key: Secret): string {
  return createHash('sha256').update('feed-sync key\n').update(key.reveal()).digest('hex');
}
