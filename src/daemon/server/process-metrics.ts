/** What Node tells of this process: processor, memory, event loop, garbage collection. */

import { collectDefaultMetrics, Registry } from 'prom-client';

let registry: Registry | null = null;

/**
 * As lines for Prometheus. Gathering begins with the first call and never ends, so it is one for the process, whatever
 * number of servers it starts.
 */
export function processMetrics(): Promise<string> {
  if (registry === null) {
    registry = new Registry();
    collectDefaultMetrics({ register: registry });
  }
  return registry.metrics();
}
