/**
 * A catch-up that carries plans out on a model of a table, and checks each step against what is true: nothing older is ever
 * loaded as the answer to a reload, changes are applied only to what they are of, and nothing wrong is called up to date.
 */

import { expect } from 'vitest';
import {
  changedDesiredState,
  type DesiredState,
  type Reload,
  withListed,
  withoutAnnouncedAbove,
  withoutAnswered,
} from '../../src/model/desired-state.ts';
import { ContractViolationError } from '../../src/model/errors.ts';
import { type ListedEntry, type ManifestEntry, snapshotDigest } from '../../src/model/manifest.ts';
import type { Schema } from '../../src/model/records.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { reloadAt } from '../../src/sync/follow/reload-requests.ts';
import { changesContentOf, contentOf } from '../../src/sync/plan/content.ts';
import { isSatisfied, owesResync, pendingReloads } from '../../src/sync/plan/need.ts';
import { plan } from '../../src/sync/plan/plan.ts';
import type { Plan, PlanInput } from '../../src/sync/plan/step.ts';
import {
  absentVersions,
  headOf,
  namingOf,
  publishedAtOf,
  recordOf,
  schemaOfSnapshot,
} from '../../src/sync/plan/versions.ts';
import {
  type Content,
  lastMoveBy,
  type ModelHistory,
  metadataNow,
  newestEvent,
  placeOf,
  publishedAt,
  type Shown,
  stateAfter,
  stateListed,
  stateNow,
  textOf,
} from './model-history.ts';
import { digestOf, failure, observedColumn, table } from './sync-values.ts';

/** What a catch-up begins with. */
export interface Start {
  /** Of which the offers are those of `shown`, unless they are read later. */
  readonly input: PlanInput;
  /** What the rows of the table are; null: there is no table. */
  readonly rows: Content | null;
  /** What the manifests list. */
  readonly shown: readonly Shown[];
}

export interface Course {
  readonly steps: readonly Plan[];
  /** How it ended: the last plan, or what kept it from being carried out. */
  readonly end: Plan['kind'] | 'failed' | 'violation';
  readonly input: PlanInput;
  readonly rows: Content | null;
}

/** The service serves this version's changes no more, or never did. */
const UNRECORDED = 'they were not recorded';

/**
 * Plans and carries out, until nothing is left to do or something fails. Every step is checked to be right.
 * @throws where it takes more than `maxSteps`.
 */
export function execute(
  start: Start,
  model: ModelHistory,
  maxSteps: number,
  { areOffersUnread = false }: { readonly areOffersUnread?: boolean } = {},
): Course {
  const course = new CatchUp(start, model, areOffersUnread);
  const steps: Plan[] = [];
  while (steps.length < maxSteps) {
    const decided = decide(course.input);
    if (decided === null) return { steps, end: 'violation', input: course.input, rows: course.rows };
    steps.push(decided);
    const end = course.take(decided);
    if (end !== null) return { steps, end, input: course.input, rows: course.rows };
  }
  throw new Error(`not done after ${maxSteps} steps: ${steps.map(({ kind }) => kind).join(' ')}`);
}

function decide(input: PlanInput): Plan | null {
  try {
    return plan(input);
  } catch (error) {
    if (error instanceof ContractViolationError) return null;
    throw error;
  }
}

class CatchUp {
  readonly #model: ModelHistory;
  readonly #shown: readonly Shown[];
  /** The last move that each entry shows, of all that were read. */
  readonly #moves = new Map<ManifestEntry, number>();
  input: PlanInput;
  rows: Content | null;

  constructor({ input, rows, shown }: Start, model: ModelHistory, areOffersUnread: boolean) {
    this.#model = model;
    this.#shown = shown;
    this.input = { ...input, metadata: null, listedEntries: areOffersUnread ? null : this.#read() };
    this.rows = rows;
  }

  /** Null: plan again. */
  take(decided: Plan): Course['end'] | null {
    switch (decided.kind) {
      case 'read-metadata':
        this.#readMetadata(decided.newerThan);
        return null;
      case 'read-manifest':
        expect(this.input.listedEntries).toBeNull();
        this.input = { ...this.input, listedEntries: this.#read() };
        return null;
      case 'ask-reload':
        this.#askReload(decided);
        return null;
      case 'void-announced':
        this.#renew(withoutAnnouncedAbove(this.input.desired, decided.above));
        return null;
      case 'load':
        return this.#load(decided);
      case 'apply':
        return this.#apply(decided);
      case 'keep':
        this.#expectUpToDate();
        return 'keep';
      default:
        return decided.kind;
    }
  }

  /** Other objects each time, as manifests that are read again are. */
  #read(): readonly ListedEntry[] {
    return this.#shown.map(({ listedEntry, move }) => {
      const entry = { ...listedEntry.entry };
      this.#moves.set(entry, move);
      return { ...listedEntry, entry };
    });
  }

  #readMetadata(newerThan: number | null): void {
    const { input } = this;
    const entries = new Set((input.listedEntries ?? []).map(({ entry }) => entry));
    const metadata = metadataNow(newerThan, this.#model, input.now, entries);
    const head = headOf(metadata)?.version ?? newerThan ?? 0;
    const desired = withListed(input.desired, head);
    this.input = { ...input, metadata, desired, absentSince: absentAfter(metadata, input) };
  }

  /** As of now: whatever the service did by now is before it. */
  #askReload({ isWithdrawal }: Plan & { kind: 'ask-reload' }): void {
    const { desired, observed, now } = this.input;
    const last = this.#model.moves.length - 1;
    if (isWithdrawal) expect(this.#isServed()).toBe(false);
    const asked = [...desired.members.keys()].reduce((changed, subscriptionId) => {
      const newest = newestEvent(subscriptionId, last, this.#model);
      const timestamp = { subscriptionId, logNumber: 1, newest, readAt: now };
      return changedDesiredState(
        changed,
        subscriptionId,
        reloadAt(timestamp, desired, observed, isWithdrawal),
      );
    }, desired);
    expect(pendingReloads(observed, asked).length).toBeGreaterThan(pendingReloads(observed, desired).length);
    this.#renew(asked);
  }

  /** A reading from before something else was requested does not count any more. */
  #renew(desired: DesiredState): void {
    this.input = { ...this.input, desired, metadata: null, listedEntries: null };
  }

  /** Whether the service has the version that the table is at, and no other in its place. */
  #isServed(): boolean {
    if (this.rows === null) return false;
    const { place } = this.rows;
    return stateNow(this.#model).places.includes(place) && publishedAt(place, this.#model).isListed;
  }

  #load(decided: Plan & { kind: 'load' }): Course['end'] | null {
    const { input } = this;
    const { listedEntry, reloads } = decided;
    const { entry } = listedEntry;
    const { content } = stateAfter(this.#moveOf(entry), this.#model);
    expect(input.listedEntries).toContain(listedEntry);
    if (input.metadata === null) throw new Error('A load is planned with the metadata.');
    const identity = contentOf(entry, publishedAtOf(entry.version, input.metadata));
    expect(refusedContents(input)).not.toContain(identity);
    const digest = snapshotDigest(entry.files);
    const record = recordOf(entry.version, input.metadata);
    const observed = table(entry.version, {
      ...shapeOf(schemaOfSnapshot(entry, input.metadata)),
      rowCount: record?.rowCount ?? entry.rowCount ?? 10,
      snapshotDigest: digest ?? digestOf(textOf(content)),
      digestKind: digest === null ? 'computed' : 'stated',
      loadedThrough: listedEntry.through,
      loadedAt: listedEntry.readAt,
      publishedAt: record?.publishedAt ?? null,
      reloads: new Map([...(input.observed?.reloads ?? []), ...reloads]),
    });
    this.#expectRightLoad(decided, observed, content);
    if (this.#model.badContents.has(identity)) return 'failed';
    const desired = withoutAnswered(input.desired, (reload) => isSatisfied(reload, observed));
    this.input = { ...input, observed, desired };
    this.rows = content;
    return null;
  }

  #moveOf(entry: ManifestEntry): number {
    const move = this.#moves.get(entry);
    if (move === undefined) throw new Error('An entry that no manifest lists.');
    return move;
  }

  #expectRightLoad({ listedEntry }: Plan & { kind: 'load' }, after: ObservedTable, content: Content): void {
    const { observed, desired } = this.input;
    expect(stateListed(this.#model).places).toContain(content.place);
    const pending = pendingReloads(observed, desired);
    const answered = pending.filter((reload) => isSatisfied(reload, after));
    // Nothing from before a reload is ever its answer; of one that nobody contains any more there is nothing to answer.
    const own = answered.filter(
      ({ subscriptionId }) => observed !== null || desired.members.has(subscriptionId),
    );
    for (const reload of own)
      expect(this.#movesBefore(reload)).toBeLessThanOrEqual(this.#moveOf(listedEntry.entry));
    const ofManifest = pending.filter(({ subscriptionId }) => subscriptionId === listedEntry.subscriptionId);
    expect(ofManifest.length === 0 || ofManifest.some((reload) => answered.includes(reload))).toBe(true);
    expect(owesResync(after, desired)).toBe(false);
    if (observed === null || this.rows === null) return;
    if (after.version < observed.version)
      expect(answered.length > 0 || owesResync(observed, desired)).toBe(true);
    if (!this.#isServed()) return;
    expect(content.place).toBeGreaterThanOrEqual(this.rows.place);
    // A manifest that lags may answer a reload of before what another has brought; then a later one is owed still.
    const isOwedMore = pending.some(
      (reload) => !answered.includes(reload) && this.#movesBefore(reload) > this.#moveOf(listedEntry.entry),
    );
    expect(isOwedMore || content.generation >= this.rows.generation).toBe(true);
  }

  /** What the service had done when a reload was asked for. */
  #movesBefore({ createdAt }: Reload): number {
    return lastMoveBy(createdAt, this.#model);
  }

  #apply(decided: Plan & { kind: 'apply' }): Course['end'] | null {
    const { input } = this;
    const { versions, schema } = decided;
    const published = versions.map((record) => publishedAt(placeOf(record, this.#model), this.#model));
    const unrecorded = published.find(({ isRecorded }) => !isRecorded);
    if (unrecorded !== undefined) {
      const { version } = unrecorded.record;
      expect(input.inapplicable.has(version)).toBe(false);
      this.input = { ...input, inapplicable: new Map([...input.inapplicable, [version, UNRECORDED]]) };
      return null;
    }
    this.#expectRightApply(decided);
    const bad = published.find(({ isBad }) => isBad);
    if (bad !== undefined) {
      // Those before it are applied all the same.
      const contents = [changesContentOf(bad.record), ...refusedContents(input)];
      const retryAt = new Date(input.now.getTime() + 1);
      this.input = { ...input, failure: failure({ contents, failedAt: input.now, retryAt }) };
      return null;
    }
    const last = published.at(-1);
    if (last === undefined || input.observed === null || this.rows === null)
      throw new Error('Nothing to apply.');
    const { version, publishedAt: at, rowCount } = last.record;
    expect(version).toBeGreaterThan(input.observed.version);
    const proven = { version, publishedAt: at, rowCount: rowCount ?? input.observed.rowCount };
    this.input = { ...input, observed: { ...input.observed, ...shapeOf(schema), ...proven } };
    this.rows = { ...this.rows, place: placeOf(last.record, this.#model) };
    return null;
  }

  /** Every version follows the one before it, says so, and adds columns at the most: and that only where it may. */
  #expectRightApply({ versions, schema, addsColumns }: Plan & { kind: 'apply' }): void {
    const { observed, desired, schemaChanges } = this.input;
    // Of replaced content they would make rows that were never published.
    expect(pendingReloads(observed, desired)).toEqual([]);
    expect(this.rows?.generation).toBe(stateListed(this.#model).content.generation);
    expect(observed?.keyColumns).not.toEqual([]);
    let at = this.rows?.place ?? null;
    let from = observed?.version;
    for (const version of versions) {
      const place = placeOf(version, this.#model);
      const { follows, keepsColumns, schema: truly } = publishedAt(place, this.#model);
      expect(follows).toBe(at);
      expect(version).toMatchObject({
        resyncRequired: false,
        previousVersion: from,
        schemaVersion: truly.schemaVersion,
      });
      const changesSchema = truly.schemaVersion !== observed?.schemaVersion;
      if (changesSchema) expect(schemaChanges).toBe('alter');
      expect(keepsColumns || !changesSchema).toBe(true);
      expect(refusedContents(this.input)).not.toContain(changesContentOf(version));
      at = place;
      from = version.version;
    }
    expect(schema.schemaVersion).toBe(versions.at(-1)?.schemaVersion);
    expect(addsColumns).toBe(schema.schemaVersion !== observed?.schemaVersion);
  }

  /** Where the list was read, and shows all: without it, nobody can know. What may be withdrawn stays until that is sure. */
  #expectUpToDate(): void {
    const { observed, metadata } = this.input;
    if (observed === null || metadata === null || namingOf(observed, metadata) === 'absent') return;
    if (this.#model.listLag > 0) return;
    const { places, content } = stateNow(this.#model);
    const place = places.findLast((one) => publishedAt(one, this.#model).isListed);
    expect(this.rows).toEqual({ place, generation: content.generation });
  }
}

/** As the checkpoint remembers what a list does not name. */
function absentAfter(
  metadata: NonNullable<PlanInput['metadata']>,
  input: PlanInput,
): PlanInput['absentSince'] {
  if (headOf(metadata) === null) return input.absentSince;
  const absent = absentVersions(input.observed, input.desired, metadata).flatMap((subject) =>
    subject.kind === 'version' ? [subject.version] : [],
  );
  return new Map(absent.map((version) => [version, input.absentSince.get(version) ?? metadata.readAt]));
}

export function shapeOf({ schemaVersion, keyColumns, columns, envelopeColumns }: Schema) {
  const named = [...columns, ...envelopeColumns].map(({ name, type }) =>
    observedColumn(name, typeof type === 'string' ? { type } : {}),
  );
  return { schemaVersion, keyColumns, columns: named };
}

function refusedContents({ failure, now }: PlanInput): readonly string[] {
  return failure !== null && failure.failedAt <= now && now < failure.retryAt ? failure.contents : [];
}
