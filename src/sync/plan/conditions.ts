/**
 * Finds the condition of a dataset that is neither suspended nor retired. Pure.
 *
 * The checks run in order of cost: whatever can be decided without asking the service is decided first. A table that
 * needs nothing costs no call, and neither does a table that only a snapshot can help while no manifest lists one.
 */

import { present } from '../../lib/assert.ts';
import { confirmedAt, isConfirmed } from '../../model/absence.ts';
import { announcedVersion, announcedVersions } from '../../model/desired-state.ts';
import type { Version } from '../../model/records.ts';
import type { FailedBefore } from './content.ts';
import { type Need, needOf, needOfChanges, owesResync, pendingReloads } from './need.ts';
import {
  bestPath,
  isSurelyBest,
  type PathByLoad,
  pathByChanges,
  pathByLoad,
  type UpdatePath,
} from './paths.ts';
import {
  answeredAt,
  isAnswering,
  orphanReloads,
  owesWithdrawal,
  type SnapshotNeed,
  satisfiedAfter,
} from './reload-rules.ts';
import type { DifferingCounts, History, ListedEntry, Plan, PlanInput } from './step.ts';
import {
  type ChainConstraints,
  cutToLimits,
  followChain,
  headOf,
  type PossiblePath,
} from './version-chain.ts';
import {
  differingCounts,
  mayLackTable,
  namingOf,
  publishedAtOf,
  schemaNamed,
  schemaOfSnapshot,
  schemaVersionAt,
  standingOfEntry,
} from './versions.ts';

type Step<Kind extends Plan['kind']> = Omit<Plan & { kind: Kind }, 'kind'>;

/** The earliest service time at which trying again helps; null: unknown. */
type Until = Date | null;

/** The conditions, each with the data of the step that follows from it. */
export interface ConditionsAtWork {
  'nothing-needed': null;
  'history-unread': Step<'read-history'>;
  /** A snapshot is needed, or may be the better path, and the manifests were not read yet. */
  'manifest-unread': null;
  /**
   * The table has a version that was withdrawn or restarted, or owes a reload to a subscription that has dropped the
   * dataset since, and no subscription that contains the dataset has asked for a reload since.
   */
  'reload-unasked': Step<'ask-reload'>;
  /** The list of versions has not named an announced version for so long that the version is surely withdrawn. */
  'announced-withdrawn': Step<'void-announced'>;
  /** A snapshot is needed, and no usable manifest lists the dataset. */
  'not-listed': Until;
  /** A snapshot is needed, and no manifest entry satisfies the need. */
  'manifest-lags': Until;
  /** A snapshot is needed, and the list of versions does not name the versions of the entries. */
  'entry-unlisted': Until;
  /** A snapshot is needed, and the list of versions states another number of rows than the entry for the same version. */
  'entry-differs': { readonly until: Until } & DifferingCounts;
  /** A snapshot is the best path, or the only one. */
  'entry-satisfies': Step<'load'>;
  /** The entry failed before and is still the same. */
  'entry-failed-before': null;
  /** Changes are the best path. */
  'changes-lead-on': Step<'apply'>;
  /** Changes are the best path, the changes of the next version failed before, and no manifest lists a later snapshot. */
  'changes-failed-before': null;
  /** The table is at the end of the list of versions, more was announced, and no manifest lists it. */
  'list-lags': Until;
}

type ConditionAtWork = {
  [Kind in keyof ConditionsAtWork]: { readonly kind: Kind; readonly data: ConditionsAtWork[Kind] };
}[keyof ConditionsAtWork];

const ENTRIES_UNREAD: ConditionAtWork = { kind: 'manifest-unread', data: null };

/** @throws ContractViolationError where the only path leads over a version whose schema the service does not list. */
export function conditionAtWork(input: PlanInput, failedBefore: FailedBefore): ConditionAtWork {
  const { observed, desired, history } = input;
  const newerThan = historyNeeded({ ...input, listedEntries: input.listedEntries ?? [] });
  const unread: ConditionAtWork = { kind: 'history-unread', data: { newerThan } };
  if (history !== null && !reachesBackTo(newerThan, history)) return unread;
  if (orphanReloads(observed, desired).length > 0) {
    return reloadUnasked(false, 'a subscription that left asked for it');
  }
  const need = needOf(observed, desired, history);
  if (need === 'nothing') {
    return conditionOfVersions(input) ?? { kind: 'nothing-needed', data: null };
  }
  const unlisted = isSnapshotNeeded(need) ? conditionUnlisted(input) : null;
  if (unlisted !== null) return unlisted;
  if (history === null || need === 'refresh') return unread;
  return conditionOfVersions(input) ?? conditionKnown(need, { ...input, history }, failedBefore);
}

/** The condition where a snapshot is needed and no entry is listed. Null: an entry is listed, or changes may still lead on. */
function conditionUnlisted({ observed, desired, history, listedEntries }: PlanInput): ConditionAtWork | null {
  if (listedEntries === null) return ENTRIES_UNREAD;
  const isAllThatIsNeeded = observed === null || needOfChanges(observed, desired, history) === 'nothing';
  return listedEntries.length === 0 && isAllThatIsNeeded ? { kind: 'not-listed', data: null } : null;
}

/** The condition where something is needed and the published versions are known. */
function conditionKnown(
  need: Need,
  input: PlanInput & { readonly history: History },
  failedBefore: FailedBefore,
): ConditionAtWork {
  const { observed, history } = input;
  const withEntries = { ...input, listedEntries: input.listedEntries ?? [] };
  const isUnread = (listedEntry: ListedEntry): boolean => standingOfEntry(listedEntry, history) === 'unread';
  if (withEntries.listedEntries.some(isUnread)) {
    return { kind: 'history-unread', data: { newerThan: historyNeeded(withEntries) } };
  }
  const found = survey(withEntries, history);
  if (!isSnapshotNeeded(need) && input.listedEntries === null) {
    const isLedByChanges = isSurelyBest(found.byChanges, found.byChain, observed);
    if (!isLedByChanges || badOnTheWay(found, failedBefore) !== null) return ENTRIES_UNREAD;
  }
  return conditionBehind(found, failedBefore);
}

function reloadUnasked(isWithdrawal: boolean, why: string): ConditionAtWork {
  return { kind: 'reload-unasked', data: { isWithdrawal, why } };
}

/** The condition that the list of versions implies for the table's version and for announced versions. Null: none. */
function conditionOfVersions({ observed, desired, history, absentSince }: PlanInput): ConditionAtWork | null {
  if (history === null) return null;
  const isGone = (version: number): boolean => {
    const since = absentSince.get(version);
    const subject = { kind: 'version', datasetId: desired.datasetId, version } as const;
    return since !== undefined && isConfirmed({ subject, since }, history.readAt);
  };
  if (observed !== null && !owesWithdrawal(observed, desired)) {
    const naming = namingOf(observed, history);
    if (naming === 'another') return reloadUnasked(true, `version ${observed.version} was published anew`);
    if (naming === 'absent' && isGone(observed.version)) {
      return reloadUnasked(true, `version ${observed.version} was withdrawn`);
    }
  }
  const announced = announcedVersion(desired);
  const head = headOf(history);
  if (announced === null || head === null) return null;
  const expected = announcedVersions(desired).filter((version) => !isGone(version));
  const above = Math.max(head.version, ...expected);
  return announced <= above ? null : { kind: 'announced-withdrawn', data: { above } };
}

function isSnapshotNeeded(need: Need): boolean {
  return need === 'table' || need === 'reload' || need === 'resync';
}

/** The input, with the manifest entries read so far. */
type WithEntries = PlanInput & { readonly listedEntries: readonly ListedEntry[] };

/**
 * Needs the versions from the table's own on, because its record names the table's schema, and from any older version
 * that may be loaded instead. Needs all versions where the table's own may be absent.
 */
function historyNeeded({ observed, desired, listedEntries, history }: WithEntries): number | null {
  if (observed !== null && history !== null && mayLackTable(observed, history)) return null;
  const mayGoBack = observed === null || pendingReloads(observed, desired).length > 0;
  const from = [
    ...(observed === null ? [] : [observed.version]),
    ...(mayGoBack ? listedEntries.map(({ entry }) => entry.version) : []),
  ];
  const oldest = from.length === 0 ? 0 : Math.min(...from);
  return oldest < 1 ? null : oldest - 1;
}

function reachesBackTo(newerThan: number | null, history: History): boolean {
  return history.newerThan === null || (newerThan !== null && history.newerThan <= newerThan);
}

/** All paths, and what decides between them. */
interface Survey {
  readonly input: WithEntries;
  readonly constraints: ChainConstraints;
  /** The needs that only a snapshot satisfies. */
  readonly demands: readonly SnapshotNeed[];
  /** The need that a snapshot may satisfy although changes may lead there, too. Null: none. */
  readonly wish: SnapshotNeed | null;
  /** The path by changes from the table on. Null: only a snapshot helps. */
  readonly byChain: PossiblePath | null;
  readonly byChanges: UpdatePath | null;
  /** The entries that satisfy a demand, and the entries that satisfy the wish. */
  readonly demanded: readonly PathByLoad[];
  readonly wished: readonly PathByLoad[];
}

function survey(input: WithEntries, history: History): Survey {
  const { observed, desired, listedEntries, inapplicable, schemaChanges } = input;
  const constraints = { history, inapplicable, schemaChanges };
  const demands = demandsOf(input);
  const ofChanges = observed === null ? 'nothing' : needOfChanges(observed, desired, history);
  const wish = ofChanges === 'version' || ofChanges === 'schema' ? ofChanges : null;
  // A table that owes a reload is not trusted: changes may apply to other rows than the table has.
  const mayChange = wish === 'version' && pendingReloads(observed, desired).length === 0;
  const byChain = observed !== null && mayChange ? followChain(observed, constraints) : null;
  const updatePaths = new Map(
    listedEntries.map((listedEntry) => [listedEntry, pathByLoad(listedEntry, input, constraints)]),
  );
  const pathsFor = (needs: readonly SnapshotNeed[]): readonly PathByLoad[] =>
    listedEntries
      .filter((listedEntry) =>
        needs.some((need) => isAnswering(need, listedEntry, { observed, desired, history })),
      )
      .map((listedEntry) => present(updatePaths.get(listedEntry), 'every entry has a path'));
  return {
    input,
    constraints,
    demands,
    wish,
    byChain,
    byChanges: byChain === null || observed === null ? null : pathByChanges(observed, byChain),
    demanded: pathsFor(demands),
    wished: wish === null ? [] : pathsFor([wish]),
  };
}

function demandsOf({ observed, desired }: PlanInput): readonly SnapshotNeed[] {
  if (observed === null) return ['table'];
  return [
    ...(pendingReloads(observed, desired).length > 0 ? (['reload'] as const) : []),
    ...(owesResync(observed, desired) ? (['resync'] as const) : []),
  ];
}

/**
 * Demands come first. Until a snapshot satisfies them, a table that owes an operator's resync may still advance by
 * changes, and a table that owes a reload only by the snapshot of a later version.
 */
function conditionBehind(found: Survey, failedBefore: FailedBefore): ConditionAtWork {
  const { byChanges, demanded, wished, input, byChain, constraints } = found;
  const isFresh = ({ entry }: ListedEntry): boolean =>
    !failedBefore.snapshot(entry, publishedAtOf(entry.version, constraints.history));
  const fresh = (updatePaths: readonly PathByLoad[]): readonly PathByLoad[] =>
    updatePaths.filter(({ schema, listedEntry }) => schema !== null && isFresh(listedEntry));
  const best = bestPath(fresh(demanded));
  if (best !== null) return entrySatisfies(best, whyDemanded(found), found);
  const next = bestPath([...(byChanges === null ? [] : [byChanges]), ...fresh(wished)]);
  if (next?.kind === 'load') return entrySatisfies(next, whyWished(next, found), found);
  if (next?.kind === 'changes') {
    const bad = badOnTheWay(found, failedBefore);
    return bad === null ? changesLeadOn(found, null) : aroundBad(bad, fresh(wished), found);
  }
  throwViolation(found);
  if (demanded.length + wished.length > 0) return { kind: 'entry-failed-before', data: null };
  if (found.demands.length === 0 && byChain !== null && byChain.stop === null) {
    return { kind: 'list-lags', data: untilVoid(input) };
  }
  return nothingAnswers(found);
}

/**
 * An entry that is older than the table and no newer than the list may be missing from a list that was not read back that
 * far.
 */
function nothingAnswers({ input, constraints }: Survey): ConditionAtWork {
  const { listedEntries, observed } = input;
  const until = untilAnswered(input, constraints.history);
  if (listedEntries.length === 0) return { kind: 'not-listed', data: until };
  const unread = Math.min(observed?.version ?? 0, headOf(constraints.history)?.version ?? 0);
  const isListed = (listedEntry: ListedEntry): boolean =>
    listedEntry.entry.version < unread || standingOfEntry(listedEntry, constraints.history) === 'named';
  if (listedEntries.some(isListed)) return { kind: 'manifest-lags', data: until };
  const [differing] = listedEntries.flatMap(({ entry }) => differingCounts(entry, constraints.history) ?? []);
  if (differing === undefined) return { kind: 'entry-unlisted', data: until };
  return { kind: 'entry-differs', data: { until, ...differing } };
}

function untilAnswered(
  { observed, desired, listedEntries, manifestLagMs }: WithEntries,
  history: History,
): Until {
  return answeredAt({ observed, desired, history }, listedEntries, manifestLagMs);
}

/** An announced version that is absent from the list is void once its withdrawal is sure. */
function untilVoid({ desired, absentSince }: WithEntries): Until {
  const version = announcedVersion(desired);
  const since = version === null ? undefined : absentSince.get(version);
  if (version === null || since === undefined) return null;
  return confirmedAt({ subject: { kind: 'version', datasetId: desired.datasetId, version }, since });
}

/** Throws where an unlisted schema is the only obstacle, because the service is at fault then. */
function throwViolation({ constraints, byChain, demanded, wished }: Survey): void {
  const unlisted = [...demanded, ...wished].find(({ schema }) => schema === null);
  if (unlisted !== undefined) schemaOfSnapshot(unlisted.listedEntry.entry, constraints.history);
  if (byChain?.stop?.violation) throw byChain.stop.violation;
}

function entrySatisfies(
  { listedEntry }: PathByLoad,
  why: string,
  { input, constraints }: Survey,
): ConditionAtWork {
  const { observed, desired } = input;
  const reloads = satisfiedAfter(listedEntry, { observed, desired, history: constraints.history });
  return { kind: 'entry-satisfies', data: { listedEntry, reloads, why } };
}

/** Returns the first version whose changes would be applied next and failed before. */
function badOnTheWay({ byChain }: Survey, failedBefore: FailedBefore): Version | null {
  return cutToLimits(byChain?.path ?? []).find(failedBefore.changes) ?? null;
}

/**
 * The snapshot of a later version is other content, so it leads around changes that failed. Without such a snapshot the
 * table moves to the version before them.
 */
function aroundBad(bad: Version, loads: readonly PathByLoad[], found: Survey): ConditionAtWork {
  const around = bestPath(loads.filter(({ listedEntry: { entry } }) => entry.version > bad.version));
  if (around !== null) {
    return entrySatisfies(around, `the changes of version ${bad.version} cannot be mirrored`, found);
  }
  const isFirst = present(found.byChain, 'changes lead along a path').path[0] === bad;
  return isFirst ? { kind: 'changes-failed-before', data: null } : changesLeadOn(found, bad);
}

/** `before`: the version that the changes do not reach; null: none. */
function changesLeadOn({ input, constraints, byChain }: Survey, before: Version | null): ConditionAtWork {
  const path = cutToLimits(present(byChain, 'changes lead along a path').path);
  const versions = before === null ? path : path.slice(0, path.indexOf(before));
  const last = present(versions.at(-1), 'a path that leads on has a last version');
  const named = present(last.schemaVersion, 'a version without a schema stops a walk');
  const schema = schemaNamed(named, last, constraints.history);
  const addsColumns = named !== input.observed?.schemaVersion;
  return { kind: 'changes-lead-on', data: { versions, schema, addsColumns } };
}

function whyDemanded({ input: { observed, desired }, demands }: Survey): string {
  if (demands.includes('table')) return 'there is no table yet';
  if (!demands.includes('reload')) return 'an operator asked for it';
  const asked = pendingReloads(observed, desired).map(
    ({ subscriptionId, eventNumber }) => `${subscriptionId} at event ${eventNumber}`,
  );
  return `the service asked for it (${[...new Set(asked)].join(' and ')})`;
}

function whyWished({ listedEntry: { entry } }: PathByLoad, found: Survey): string {
  const { observed } = found.input;
  if (found.wish === 'schema') {
    const wanted = schemaVersionAt(observed?.version ?? entry.version, found.constraints.history);
    return `the table has schema ${observed?.schemaVersion ?? 'unknown'}, and its version has schema ${wanted}`;
  }
  if (found.byChain === null) return 'the table takes no changes until its reload is answered';
  const { path, stop } = found.byChain;
  const end = path.at(-1)?.version ?? observed?.version ?? 0;
  if (entry.version <= end) return `it is less work than the changes of ${path.length} versions`;
  return stop?.why ?? `the list of versions does not reach version ${entry.version} yet`;
}
