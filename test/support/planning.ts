/** What plans are made of, for the tests of the rules: each builder gives an ordinary case, and takes what a test changes. */

import { NO_LIMITS } from '../../src/model/gate.ts';
import type { Version } from '../../src/model/records.ts';
import { plan } from '../../src/sync/plan/plan.ts';
import type { Plan, PlanInput } from '../../src/sync/plan/step.ts';
import { desired, NOW, version } from './sync-values.ts';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
/** How long a manifest that does not say how far it goes may lag. */
export const LAG_MS = 15 * MINUTE_MS;

/** So long before `NOW`. */
export function ago(durationMs: number): Date {
  return new Date(NOW.getTime() - durationMs);
}

export function planInput(changed: Partial<PlanInput> = {}): PlanInput {
  return {
    desired: desired(),
    observed: null,
    suspension: null,
    failure: null,
    listedEntries: [],
    absentSince: new Map(),
    metadata: null,
    inapplicable: new Map(),
    retirement: { kind: 'allowed', judgedAt: NOW },
    schemaChanges: 'reload',
    manifestLagMs: LAG_MS,
    maxStagedBytes: 8e9,
    commitsEveryVersion: false,
    limits: NO_LIMITS,
    now: NOW,
    ...changed,
  };
}

export function planOf(changed: Partial<PlanInput>): Plan {
  return plan(planInput(changed));
}

/** The versions from `first` to `last`, each following the one before it. */
export function chain(first: number, last: number, changed: Partial<Version> = {}): readonly Version[] {
  const length = last - first + 1;
  return Array.from({ length }, (_, index) => version('parcels', first + index, changed));
}

/** The kind of a plan, with the versions that it applies or loads. */
export function reported(decided: Plan): string {
  if (decided.kind === 'apply') return `apply ${decided.versions.map((one) => one.version).join(',')}`;
  if (decided.kind === 'load') return `load ${decided.listedEntry.entry.version}`;
  return decided.kind === 'wait' ? `wait: ${decided.why}` : decided.kind;
}

export function stepOf(changed: Partial<PlanInput>): string {
  return reported(planOf(changed));
}
