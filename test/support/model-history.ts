/**
 * A dataset's past as it truly was, beside what the service says of it, and a catch-up that carries plans out on a
 * model of a table. What is true is known here without asking the planner, so that a step which is not right is seen.
 */

import { expect } from 'vitest';
import type { HeldDataset } from '../../src/destination/destination.ts';
import { ContractViolationError } from '../../src/model/errors.ts';
import { snapshotDigest } from '../../src/model/manifest.ts';
import type { Schema } from '../../src/model/schema.ts';
import type { Version } from '../../src/model/version.ts';
import { changesContentOf, contentOf } from '../../src/sync/plan/content.ts';
import { pendingReloads } from '../../src/sync/plan/need.ts';
import { plan } from '../../src/sync/plan/plan.ts';
import { schemaOfSnapshot } from '../../src/sync/plan/schemas.ts';
import type { Plan, PlanInput } from '../../src/sync/plan/step.ts';
import { heldColumn, table } from './sync-values.ts';

/** A version as it was published. */
export interface Published {
  /** As the service lists it; what it says may be less than the truth, or another. */
  readonly record: Version;
  readonly isListed: boolean;
  /** The version that its changes start from; null: they start from none. */
  readonly follows: number | null;
  readonly isRecorded: boolean;
  /** A value of its changes is bad. */
  readonly isBad: boolean;
  readonly schema: Schema;
  /** Adds columns to the schema before, or has the same. */
  readonly keepsColumns: boolean;
}

export interface ModelHistory {
  /** Oldest first. */
  readonly published: readonly Published[];
  /** Newest first. */
  readonly schemas: readonly Schema[];
  /** Contents of snapshots that cannot be loaded. */
  readonly badContents: ReadonlySet<string>;
}

export interface Course {
  readonly steps: readonly Plan[];
  /** How it ended: the last plan, or what kept it from being carried out. */
  readonly end: Plan['kind'] | 'failed' | 'violation';
  readonly input: PlanInput;
}

/** A live table that was loaded at this version. */
export function tableAt({ record, schema }: Published, changed: Partial<HeldDataset> = {}): HeldDataset {
  return table(record.version, { ...shapeOf(schema), ...changed });
}

/**
 * Plans and carries out, until nothing is left to do or something fails. Every step is checked to be right.
 * @throws where it takes more than `maxSteps`.
 */
export function carryOut(
  given: PlanInput,
  model: ModelHistory,
  maxSteps: number,
  { areOffersUnread = false }: { readonly areOffersUnread?: boolean } = {},
): Course {
  const steps: Plan[] = [];
  let input = areOffersUnread ? { ...given, offers: null } : given;
  const ended = (end: Course['end']): Course => ({ steps, end, input });
  while (steps.length < maxSteps) {
    const decided = decide(input);
    if (decided === null) return ended('violation');
    steps.push(decided);
    switch (decided.kind) {
      case 'read-history':
        input = { ...input, history: historyFrom(decided.newerThan, model) };
        break;
      case 'read-offers':
        expect(input.offers).toBeNull();
        input = { ...input, offers: given.offers };
        break;
      case 'want-reload':
        input = afterWanting(decided, input);
        break;
      case 'load':
        expectRightLoad(decided, input);
        if (model.badContents.has(contentOf(decided.offer.entry))) return ended('failed');
        input = afterLoad(decided, input);
        break;
      case 'apply': {
        const unrecorded = decided.versions.find(({ version }) => !publishedAs(version, model).isRecorded);
        if (unrecorded !== undefined) {
          expect(input.unusable.has(unrecorded.version)).toBe(false);
          input = { ...input, unusable: new Map([...input.unusable, [unrecorded.version, 'not recorded']]) };
          break;
        }
        expectRightApply(decided, input, model);
        if (decided.versions.some(({ version }) => publishedAs(version, model).isBad)) return ended('failed');
        input = afterApply(decided, input);
        break;
      }
      default:
        return ended(decided.kind);
    }
  }
  throw new Error(`not done after ${maxSteps} steps: ${steps.map(({ kind }) => kind).join(' ')}`);
}

/** As the checkpoint would store it. */
function afterWanting({ reloads }: Plan & { kind: 'want-reload' }, input: PlanInput): PlanInput {
  const { want, held, now } = input;
  const reloadAfter = new Map(want.reloadAfter);
  const reloadAskedAt = new Map(want.reloadAskedAt);
  for (const { subscriptionId, eventNumber } of reloads) {
    expect(want.members).toContain(subscriptionId);
    expect(eventNumber).toBeGreaterThan(reloadAfter.get(subscriptionId) ?? -1n);
    reloadAfter.set(subscriptionId, eventNumber);
    reloadAskedAt.set(subscriptionId, now);
  }
  for (const { version } of reloads) expect(version).toBeLessThan(held?.version ?? 0);
  const atLeastVersion = reloads.at(-1)?.version ?? null;
  return { ...input, want: { ...want, reloadAfter, reloadAskedAt, atLeastVersion }, history: null };
}

function decide(input: PlanInput): Plan | null {
  try {
    return plan(input);
  } catch (error) {
    if (error instanceof ContractViolationError) return null;
    throw error;
  }
}

function historyFrom(newerThan: number | null, { published, schemas }: ModelHistory): PlanInput['history'] {
  const versions = published
    .filter(({ record, isListed }) => isListed && record.version > (newerThan ?? -1))
    .map(({ record }) => record);
  return { newerThan, versions: versions.toReversed(), schemas };
}

/**
 * A version goes back only by a reload, which is then satisfied; what failed is not loaded again. Where there was no table,
 * the reload of one that offers nothing stays wanted.
 */
function expectRightLoad({ offer, reloads }: Plan & { kind: 'load' }, input: PlanInput): void {
  const { held, want, offers } = input;
  expect(offers).toContain(offer);
  const pending = pendingReloads(held, want);
  if (pending.size === 0 && held !== null) {
    expect(offer.entry.version).toBeGreaterThanOrEqual(held.version);
  }
  for (const [subscriptionId, eventNumber] of pending) {
    const isOffered = offers?.some((each) => each.subscriptionId === subscriptionId) === true;
    if (held === null && want.members.has(subscriptionId) && !isOffered) continue;
    expect(reloads.get(subscriptionId)).toBeGreaterThanOrEqual(eventNumber);
  }
  expect(standingContents(input)).not.toContain(contentOf(offer.entry));
}

/** Every version follows the one before it, says so, and adds columns at the most: and that only where it may. */
function expectRightApply(
  { versions, schema, addsColumns }: Plan & { kind: 'apply' },
  input: PlanInput,
  model: ModelHistory,
): void {
  const { held, want, schemaChanges } = input;
  expect(pendingReloads(held, want).size + want.resyncsAsked - want.resyncsDone).toBe(0);
  expect(held?.keyColumns).not.toEqual([]);
  let at = held?.version ?? null;
  for (const version of versions) {
    const { record, follows, keepsColumns, schema: truly } = publishedAs(version.version, model);
    expect(follows).toBe(at);
    expect(record).toMatchObject({
      resyncRequired: false,
      previousVersion: at,
      schemaVersion: truly.schemaVersion,
    });
    const changesSchema = truly.schemaVersion !== held?.schemaVersion;
    if (changesSchema) expect(schemaChanges).toBe('alter');
    expect(keepsColumns || !changesSchema).toBe(true);
    expect(standingContents(input)).not.toContain(changesContentOf(version));
    at = version.version;
  }
  expect(schema.schemaVersion).toBe(versions.at(-1)?.schemaVersion);
  expect(addsColumns).toBe(schema.schemaVersion !== held?.schemaVersion);
}

function afterLoad({ offer: { entry }, reloads }: Plan & { kind: 'load' }, input: PlanInput): PlanInput {
  const { history, want } = input;
  if (history === null) throw new Error('A load is planned with the history.');
  const shape = shapeOf(schemaOfSnapshot(entry, history));
  const snapshotDigestOf = snapshotDigest(entry.files) ?? 'as downloaded';
  const held = table(entry.version, { ...shape, reloads, snapshotDigest: snapshotDigestOf });
  return { ...input, held, want: { ...want, resyncsDone: want.resyncsAsked } };
}

function afterApply({ versions, schema }: Plan & { kind: 'apply' }, input: PlanInput): PlanInput {
  const version = versions.at(-1)?.version ?? -1;
  expect(version).toBeGreaterThan(input.held?.version ?? -1);
  return input.held === null ? input : { ...input, held: { ...input.held, ...shapeOf(schema), version } };
}

function shapeOf({ schemaVersion, keyColumns, columns, envelopeColumns }: Schema) {
  const named = [...columns, ...envelopeColumns].map(({ name, type }) =>
    heldColumn(name, typeof type === 'string' ? { type } : {}),
  );
  return { schemaVersion, keyColumns, columns: named };
}

function publishedAs(version: number, { published }: ModelHistory): Published {
  const found = published.find(({ record }) => record.version === version);
  if (found === undefined) throw new Error(`Version ${version} was never published.`);
  return found;
}

function standingContents({ failure, now }: PlanInput): readonly string[] {
  return failure !== null && failure.failedAt <= now && now < failure.retryAt ? failure.contents : [];
}
