/** What the program reads of the feed by itself: each answers a document. */

import type { Operation } from '../../fixtures/feed/operations.ts';

export const READ_OPERATIONS: readonly Operation[] = [
  'openapi',
  'subscriptions',
  'events',
  'versions',
  'schemas',
  'changes',
  'manifest',
];
