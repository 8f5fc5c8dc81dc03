/**
 * What a mirror that several instances share stores beside its tables, as a database does: requests of operators and content that waits
 * for approval. Whoever does not hold the lease writes nothing.
 */

import type { OperatorRequest, Requests } from '../../src/checkpoint/requests.ts';
import type { StoredCandidates } from '../../src/destination/destination.ts';
import type { Candidate } from '../../src/model/candidate.ts';
import { BusyError } from '../../src/model/errors.ts';

export interface SharedRequest extends OperatorRequest {
  /** The epoch of the instance that began it; null: none did. */
  readonly begunBy: number | null;
}

/** Never changed: a write puts another one in its place. */
export interface SharedState {
  readonly candidates: readonly Candidate[];
  /** The oldest first. */
  readonly requests: readonly SharedRequest[];
}

export const NOTHING_SHARED: SharedState = { candidates: [], requests: [] };

/** The mirror, as far as these need it. */
export interface SharedPlace {
  shared: SharedState;
  /** Of the instance that holds the lease. */
  readonly epoch: number;
}

/** @throws BusyError for an instance whose lease was taken over */
export function hold(place: SharedPlace, epoch: number): void {
  if (epoch !== place.epoch) throw superseded();
}

export function superseded(): BusyError {
  return new BusyError('Another instance has taken over the mirror.', { code: 'instance_running' });
}

export function sharedCandidates(place: SharedPlace, epoch: number): StoredCandidates {
  return {
    all: async () => place.shared.candidates,
    async keep(candidate) {
      hold(place, epoch);
      place.shared = withCandidate(place.shared, candidate.datasetId, [candidate]);
    },
    async remove(datasetId) {
      hold(place, epoch);
      place.shared = withCandidate(place.shared, datasetId, []);
    },
  };
}

/** Puts candidates in the place of that of the dataset. */
export function withCandidate(
  shared: SharedState,
  datasetId: string,
  candidates: readonly Candidate[],
): SharedState {
  return {
    ...shared,
    candidates: [...shared.candidates.filter((one) => one.datasetId !== datasetId), ...candidates],
  };
}

/** A request that an instance began and did not answer waits again once another epoch has begun. */
export function sharedRequests(place: SharedPlace, epoch: number): Requests {
  const waiting = (): readonly SharedRequest[] =>
    place.shared.requests.filter(({ begunBy }) => begunBy !== place.epoch);
  return {
    async ask(request) {
      place.shared = { ...place.shared, requests: [...place.shared.requests, { ...request, begunBy: null }] };
    },
    withdraw: async () => ({ kind: 'kept' }),
    state: async (id) =>
      place.shared.requests.some(({ requestId }) => requestId === id) ? { kind: 'waiting' } : null,
    waitingDatasets: async () => [...new Set(waiting().map(({ datasetId }) => datasetId))],
    async begin(datasetId) {
      hold(place, epoch);
      const begun = waiting().find((one) => one.datasetId === datasetId);
      if (begun === undefined) return null;
      place.shared = replaced(place.shared, begun, { ...begun, begunBy: epoch });
      return begun;
    },
    async answer(id) {
      if (epoch !== place.epoch) return;
      const requests = place.shared.requests.filter(({ requestId }) => requestId !== id);
      place.shared = { ...place.shared, requests };
    },
  };
}

/** A commit that used an approval says so in the request that brought it. */
export function withCommitted(shared: SharedState, datasetId: string, digest: string): SharedState {
  const used = shared.requests.find(
    (one) =>
      one.datasetId === datasetId &&
      one.command === 'approve' &&
      one.begunBy !== null &&
      digest.startsWith((one.parameters as { readonly content: string }).content),
  );
  return used === undefined ? shared : replaced(shared, used, { ...used, isCommitted: true });
}

function replaced(shared: SharedState, before: SharedRequest, after: SharedRequest): SharedState {
  return { ...shared, requests: shared.requests.map((one) => (one === before ? after : one)) };
}
