/** Subscriptions of the workspace (the service's interface, Resources: Subscription record). */

import type { EventId } from './event.ts';

export interface Subscription {
  readonly id: string;
  readonly name: string | null;
  readonly places: readonly string[];
  readonly topics: readonly string[];
  readonly datasetIds: readonly string[];
  readonly datasetCount: number | null;
  readonly lastEventId: EventId | null;
}
