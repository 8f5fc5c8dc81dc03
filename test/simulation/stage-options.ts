/** How the feed of a history is made, on whichever stage. */

import { CANARY_KEY } from '../support/feed-client.ts';
import type { Settings } from './settings.ts';

/** When a history begins. */
export const START = '2026-01-01T00:00:00Z';

export function feedOptionsOf(settings: Settings) {
  const { manifest, manifestLastEventId, recordLastEventId, emptySnapshot, sha256, unknownPosition } =
    settings;
  return {
    apiKey: CANARY_KEY,
    contract: { manifest, manifestLastEventId, recordLastEventId },
    files: { emptySnapshot, sha256 },
    answers: { unknownPosition },
  };
}
