/**
 * What is stored of the way to the service: a hash of the API key and one of the base URL, by which a suspension of the
 * workspace is seen to be of another key or address.
 */

import { createHash } from 'node:crypto';
import type { Configuration } from '../configuration/configuration.ts';

/** Tells one key from another, and one base URL from another, and gives none of them away. */
export function keyHashOf({ apiKey, baseUrl }: Pick<Configuration['service'], 'apiKey' | 'baseUrl'>): string {
  const ofKey = createHash('sha256').update('feed-sync key\n').update(apiKey.reveal()).digest('hex');
  const ofBaseUrl = createHash('sha256').update('feed-sync base URL\n').update(baseUrl).digest('hex');
  return `${ofKey}/${ofBaseUrl}`;
}
