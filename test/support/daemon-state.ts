/** States of a daemon: each builder gives an ordinary one with the changes of a test; and a subject for reports. */

import type {
  Counters,
  DaemonEvent,
  DaemonState,
  DatasetActivity,
  Observed,
  Observer,
  OngoingIncident,
  Readiness,
  SubscriptionState,
} from '../../src/daemon/state.ts';
import { NEVER_SCRUBBED } from '../../src/model/scrub.ts';
import { NOW } from './sync-values.ts';

export function daemonState(changed: Partial<DaemonState> = {}): DaemonState {
  return {
    startedAt: secondsAgo(3_600),
    now: NOW,
    phase: 'following',
    loopSilentMs: 300,
    caughtUpAt: secondsAgo(3_000),
    lastAuditAt: secondsAgo(600),
    nextAuditAt: secondsAgo(-3_000),
    nextPollAt: secondsAgo(-30),
    subscriptions: new Map([['sub_1', subscriptionState('sub_1')]]),
    datasets: new Map([['parcels', datasetState('parcels')]]),
    suspensions: [],
    incidents: [],
    counters: counters(),
    scrub: NEVER_SCRUBBED,
    ...changed,
  };
}

/** Read to its head ten seconds ago, with nothing left to do. */
export function subscriptionState(
  subscriptionId: string,
  changed: Partial<SubscriptionState> = {},
): SubscriptionState {
  return {
    subscriptionId,
    name: null,
    condition: 'idle',
    conditionSince: secondsAgo(3_000),
    lastPollAt: secondsAgo(10),
    lastGoodPollAt: secondsAgo(10),
    cursor: 'evt_7',
    lastEventAt: secondsAgo(7_200),
    head: 'evt_7',
    cursorAgeMs: 7_200_000,
    cursorExpiresAt: secondsAgo(-7_000_000),
    ...changed,
  };
}

/** Where it should be, at version 3. */
export function datasetState(datasetId: string, changed: Partial<DatasetActivity> = {}): DatasetActivity {
  return {
    datasetId,
    version: 3,
    targetVersion: 3,
    behindSince: null,
    work: null,
    retryAt: null,
    waitsFor: null,
    failure: null,
    awaitingSince: null,
    pinnedSince: null,
    ...changed,
  };
}

export function counters(changed: Partial<Counters> = {}): Counters {
  return {
    events: new Map(),
    commits: new Map(),
    rows: new Map(),
    resyncs: new Map(),
    downloadedBytes: 0,
    requests: new Map(),
    exports: new Map(),
    polls: 0,
    audits: 0,
    interruptions: 0,
    ...changed,
  };
}

export function incident(of: string, changed: Partial<OngoingIncident> = {}): OngoingIncident {
  return {
    of,
    error: 'service_unavailable',
    message: 'It went wrong.',
    hint: null,
    since: secondsAgo(60),
    attempts: 2,
    isStall: false,
    ...changed,
  };
}

export function secondsAgo(seconds: number): Date {
  return new Date(NOW.getTime() - seconds * 1_000);
}

/** A subject of reports whose state a test sets. */
export class SteeredObserved implements Observed {
  current: DaemonState | Error;
  readonly #observers = new Set<Observer>();

  constructor(state: DaemonState | Error = daemonState()) {
    this.current = state;
  }

  state(): DaemonState {
    if (this.current instanceof Error) throw this.current;
    return this.current;
  }

  /** Also where the state cannot be read: it needs no store. */
  readiness(): Readiness {
    return this.current instanceof Error ? daemonState() : this.current;
  }

  loopSilentMs(): number {
    return this.current instanceof Error ? 0 : this.current.loopSilentMs;
  }

  observe(observer: Observer): () => void {
    this.#observers.add(observer);
    return () => void this.#observers.delete(observer);
  }

  get observers(): number {
    return this.#observers.size;
  }

  report(daemonEvent: DaemonEvent): void {
    for (const observer of this.#observers) observer(daemonEvent);
  }
}
