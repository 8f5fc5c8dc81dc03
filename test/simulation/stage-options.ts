/** How the feed of a history is made, on whichever stage. */

import { CANARY_KEY } from '../support/feed-client.ts';
import type { Settings } from './settings.ts';

/** When a history begins. */
export const START = '2026-01-01T00:00:00Z';

export function feedOptionsOf({ manifest, manifestLastEventId, emptySnapshot }: Settings) {
  return {
    apiKey: CANARY_KEY,
    contract: { manifest, manifestLastEventId },
    files: { emptySnapshot },
  };
}
