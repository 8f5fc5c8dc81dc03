/** How the daemon ends. */

import type { Hold } from '../checkpoint/checkpoint.ts';
import type { ConfigurationError } from '../model/errors.ts';

export type End =
  /** As `stop` asked. */
  | { readonly kind: 'stopped' }
  /** What was under way did not end in time: whoever waits for it waits for ever. */
  | { readonly kind: 'stuck' }
  /** The watchdog interrupted what was under way, and that has ended: the daemon may start anew. */
  | { readonly kind: 'standstill' }
  /** The workspace is refused and there is no mirror to keep: a person has to act first. */
  | { readonly kind: 'refused'; readonly holds: readonly Hold[] }
  | { readonly kind: 'misconfigured'; readonly error: ConfigurationError };
