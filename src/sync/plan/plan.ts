/**
 * Plans the next step of a dataset: a pure function of both stores' state, the manifest entries and the service's lists. No I/O
 * and no clock. The executor decides nothing: the dataset is planned again after each step, until nothing is left to do.
 *
 * The checks run in order of cost: whatever can be decided without asking the service is decided first. A table that needs
 * nothing costs no call, and neither does a table that only a snapshot can help while no manifest lists one.
 */

import type { Failure, Suspension } from '../../checkpoint/checkpoint.ts';
import { present } from '../../lib/assert.ts';
import { plural } from '../../lib/units.ts';
import { confirmedAt, isConfirmed } from '../../model/absence.ts';
import type { Candidate } from '../../model/candidate.ts';
import { announcedVersion, announcedVersions, type DesiredState } from '../../model/desired-state.ts';
import type { ListedEntry } from '../../model/manifest.ts';
import type { Version } from '../../model/records.ts';
import { isPinned, type ObservedTable } from '../../model/write-jobs.ts';
import {
  candidateOf,
  identitiesOfEntry,
  identitiesOfPath,
  isLetThrough,
  isWaiting,
  planCandidate,
  shortestSum,
  versionsBack,
  waitingContent,
  whyGone,
  whyOver,
} from './candidate.ts';
import { type FailedBefore, failedBefore, oversizedBefore, whyOversized } from './content.ts';
import {
  answeredAt,
  isAnswering,
  type Need,
  needOf,
  needOfChanges,
  orphanReloads,
  owesResync,
  owesWithdrawal,
  pendingReloads,
  type SnapshotNeed,
  satisfiedAfter,
} from './need.ts';
import { retirementReason } from './retirement.ts';
import type { Metadata, Plan, PlanInput, WaitReason } from './step.ts';
import {
  bestPath,
  type ChainConstraints,
  cutToLimits,
  followChain,
  isSurelyBest,
  type PathByLoad,
  type PossiblePath,
  pathByChanges,
  pathByLoad,
  type UpdatePath,
} from './version-chain.ts';
import {
  confirmationOf,
  differingCounts,
  headOf,
  mayLackTable,
  namingOf,
  publishedAtOf,
  schemaNamed,
  schemaOfSnapshot,
  schemaVersionAt,
} from './versions.ts';

/** The dataset fell back from the changes to a snapshot that failed. */
const INAPPLICABLE_BEFORE = 'they could not be used before';

/** @throws ContractViolationError where the only path leads over a version whose schema the service does not list. */
export function plan(input: PlanInput): Plan {
  const { desired, suspension, failure, metadata, now, maxStagedBytes } = input;
  if (desired.members.size === 0) return planOfRetired(input);
  const pinnedSince = input.observed?.pinnedSince ?? null;
  if (pinnedSince !== null) return { kind: 'report-pin', pinnedSince };
  if (suspension !== null && suspension.candidate === undefined) {
    return { kind: 'report-suspension', suspension };
  }
  const failed = failedBefore(failure, now);
  const isOversized = oversizedBefore(failure, now, maxStagedBytes);
  const before = (
    found: (version: Version) => boolean,
    why: string,
  ): readonly (readonly [number, string])[] =>
    (metadata?.versions ?? []).filter(found).map(({ version }) => [version, why]);
  const inapplicable = new Map([
    ...before(failed.inapplicable, INAPPLICABLE_BEFORE),
    ...before(isOversized, whyOversized(maxStagedBytes)),
    ...input.inapplicable,
  ]);
  return planBesideCandidate({ ...input, inapplicable }, failed);
}

/**
 * A candidate that stands is committed once it is let through. Until then only other content is fetched, and where there is
 * none the dataset waits for the operator. A candidate that stands no longer is forgotten first.
 */
function planBesideCandidate(input: PlanInput, failedBefore: FailedBefore): Plan {
  const { suspension, observed, metadata, limits } = input;
  const candidate = candidateOf(input);
  if (suspension === null || candidate === null) return planAtWork(input, failedBefore);
  const over = whyOver(candidate, input);
  if (over !== null || observed === null) return { kind: 'drop-candidate', why: over ?? 'it has no table' };
  const newerThan = versionsBack(candidate, metadataNeeded({ ...input, listedEntries: [] }));
  if (metadata === null || !reachesBackTo(newerThan, metadata)) return { kind: 'read-metadata', newerThan };
  const gone =
    needOf(observed, input.desired, metadata) === 'nothing'
      ? 'nothing needs it any more'
      : whyGone(candidate, metadata);
  if (gone !== null) return { kind: 'drop-candidate', why: gone };
  if (isLetThrough(candidate, limits))
    return planThrough(candidate, observed, { ...input, metadata }, failedBefore);
  const step = planAtWork(input, failedBefore);
  const isEnd =
    step.kind === 'wait' || step.kind === 'report-failure' || isWaiting(step, candidate, limits, metadata);
  return isEnd ? { kind: 'report-suspension', suspension } : step;
}

/** Content that cannot be mirrored is forgotten with its approval. */
function planThrough(
  candidate: Candidate,
  observed: ObservedTable,
  { metadata, inapplicable }: PlanInput & { readonly metadata: Metadata },
  failedBefore: FailedBefore,
): Plan {
  const step = planCandidate(candidate, observed, metadata);
  const isBad =
    (step.kind === 'apply' &&
      step.versions.some((one) => inapplicable.has(one.version) || failedBefore.changes(one))) ||
    (step.kind === 'load' &&
      failedBefore.snapshot(step.listedEntry.entry, publishedAtOf(step.listedEntry.entry.version, metadata)));
  return isBad ? { kind: 'drop-candidate', why: 'it cannot be mirrored' } : step;
}

function planOfRetired({ desired, observed, retirement }: PlanInput): Plan {
  if (observed === null) return { kind: 'leave' };
  switch (retirement.kind) {
    case 'logs-unread':
      return { kind: 'await-subscriptions', awaited: retirement.awaited };
    case 'needs-approval':
      return { kind: 'report-suspension', suspension: retirement.suspension };
    case 'allowed':
      return {
        kind: 'retire',
        reason: retirementReason(desired),
        isApproved: desired.retirementApproved,
        judgedAt: retirement.judgedAt,
      };
  }
}

export type DatasetPhaseKind =
  /** The dataset is desired, and has no table yet. */
  | 'absent'
  /** The table serves readers. */
  | 'live'
  /** The last attempt failed. A table that exists still serves readers. */
  | 'failed'
  /** A rollback keeps the table where it is until an operator resumes it. */
  | 'pinned'
  /** The service refused, and an operator has to act. A table that exists still serves readers. */
  | 'suspended'
  /** No subscription contains the dataset any more. */
  | 'retired';

/** The state of one dataset, from both stores. */
export interface DatasetState {
  readonly desired: DesiredState;
  readonly observed: ObservedTable | null;
  readonly suspension: Suspension | null;
  readonly failure: Failure | null;
}

export function phaseOf({ desired, observed, suspension, failure }: DatasetState): DatasetPhaseKind {
  if (desired.members.size === 0) return 'retired';
  if (isPinned(observed)) return 'pinned';
  if (suspension !== null) return 'suspended';
  if (failure !== null) return 'failed';
  return observed === null ? 'absent' : 'live';
}

/** The earliest service time at which trying again helps; null: unknown. */
type Until = Date | null;

const wait = (why: WaitReason, until: Until): Plan => ({ kind: 'wait', why, until });

const READ_MANIFEST: Plan = { kind: 'read-manifest' };
const REPORT_FAILURE: Plan = { kind: 'report-failure' };

/** Plans for a dataset that is neither suspended nor retired. */
function planAtWork(input: PlanInput, failedBefore: FailedBefore): Plan {
  const { observed, desired, metadata } = input;
  const newerThan = metadataNeeded({ ...input, listedEntries: input.listedEntries ?? [] });
  const unread: Plan = { kind: 'read-metadata', newerThan };
  if (metadata !== null && !reachesBackTo(newerThan, metadata)) return unread;
  if (orphanReloads(observed, desired).length > 0) {
    return askReload(false, 'a subscription that left asked for it');
  }
  const need = needOf(observed, desired, metadata);
  if (need === 'nothing') {
    return planForVersions(input) ?? { kind: 'keep' };
  }
  const unlisted = isSnapshotNeeded(need) ? planUnlisted(input) : null;
  if (unlisted !== null) return unlisted;
  if (metadata === null || need === 'refresh') return unread;
  return planForVersions(input) ?? planKnown(need, { ...input, metadata }, failedBefore);
}

/** The step where a snapshot is needed and no entry is listed. Null: an entry is listed, or changes may still lead on. */
function planUnlisted({ observed, desired, metadata, listedEntries }: PlanInput): Plan | null {
  if (listedEntries === null) return READ_MANIFEST;
  const isAllThatIsNeeded = observed === null || needOfChanges(observed, desired, metadata) === 'nothing';
  return listedEntries.length === 0 && isAllThatIsNeeded ? wait('not-listed', null) : null;
}

/** The step where something is needed and the published versions are known. */
function planKnown(
  need: Need,
  input: PlanInput & { readonly metadata: Metadata },
  failedBefore: FailedBefore,
): Plan {
  const { observed, metadata } = input;
  const withEntries = { ...input, listedEntries: input.listedEntries ?? [] };
  const isUnread = (listedEntry: ListedEntry): boolean => confirmationOf(listedEntry, metadata) === 'unread';
  if (withEntries.listedEntries.some(isUnread)) {
    return { kind: 'read-metadata', newerThan: metadataNeeded(withEntries) };
  }
  const found = survey(withEntries, metadata);
  if (!isSnapshotNeeded(need) && input.listedEntries === null) {
    const { byChanges, byChain, isWaitingByChanges } = found;
    const isLedByChanges =
      (input.commitsEveryVersion && found.byChanges !== null) ||
      isSurelyBest(byChanges, byChain, observed) ||
      (isWaitingByChanges && byChain?.stop === null);
    if (!isLedByChanges || badOnTheWay(found, failedBefore) !== null) return READ_MANIFEST;
  }
  return planBehind(found, failedBefore);
}

function askReload(isWithdrawal: boolean, why: string): Plan {
  return { kind: 'ask-reload', isWithdrawal, why };
}

/** The step that the list of versions implies for the table's version and for announced versions. Null: none. */
function planForVersions({ observed, desired, metadata, absentSince }: PlanInput): Plan | null {
  if (metadata === null) return null;
  const isGone = (version: number): boolean => {
    const since = absentSince.get(version);
    const subject = { kind: 'version', datasetId: desired.datasetId, version } as const;
    return since !== undefined && isConfirmed({ subject, since }, metadata.readAt);
  };
  if (observed !== null && !owesWithdrawal(observed, desired)) {
    const naming = namingOf(observed, metadata);
    if (naming === 'another') return askReload(true, `version ${observed.version} was published anew`);
    if (naming === 'absent' && isGone(observed.version)) {
      return askReload(true, `version ${observed.version} was withdrawn`);
    }
  }
  const announced = announcedVersion(desired);
  const head = headOf(metadata);
  if (announced === null || head === null) return null;
  const expected = announcedVersions(desired).filter((version) => !isGone(version));
  const above = Math.max(head.version, ...expected);
  return announced <= above ? null : { kind: 'void-announced', above };
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
function metadataNeeded({ observed, desired, listedEntries, metadata }: WithEntries): number | null {
  if (observed !== null && metadata !== null && mayLackTable(observed, metadata)) return null;
  const mayGoBack = observed === null || pendingReloads(observed, desired).length > 0;
  const from = [
    ...(observed === null ? [] : [observed.version]),
    ...(mayGoBack ? listedEntries.map(({ entry }) => entry.version) : []),
  ];
  const oldest = from.length === 0 ? 0 : Math.min(...from);
  return oldest < 1 ? null : oldest - 1;
}

function reachesBackTo(newerThan: number | null, metadata: Metadata): boolean {
  return metadata.newerThan === null || (newerThan !== null && metadata.newerThan <= newerThan);
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
  /** The changes wait for approval already, so that `byChanges` is null. */
  readonly isWaitingByChanges: boolean;
  /** The entries that satisfy a demand, and the entries that satisfy the wish, without content that waits for approval. */
  readonly demanded: readonly PathByLoad[];
  readonly wished: readonly PathByLoad[];
}

function survey(input: WithEntries, metadata: Metadata): Survey {
  const { observed, desired, listedEntries, inapplicable, schemaChanges } = input;
  const constraints = { metadata, inapplicable, schemaChanges };
  const demands = demandsOf(input);
  const ofChanges = observed === null ? 'nothing' : needOfChanges(observed, desired, metadata);
  const wish = ofChanges === 'version' || ofChanges === 'schema' ? ofChanges : null;
  // A table that owes a reload is not trusted: changes may apply to other rows than the table has.
  const mayChange = wish === 'version' && pendingReloads(observed, desired).length === 0;
  const byChain = observed !== null && mayChange ? followChain(observed, constraints) : null;
  const updatePaths = new Map(
    listedEntries.map((listedEntry) => [listedEntry, pathByLoad(listedEntry, input, constraints)]),
  );
  const candidate = candidateOf(input);
  const waiting = candidate === null ? new Set<string>() : waitingContent(candidate, input.limits);
  const path = cutToLimits(byChain?.path ?? []);
  const isWaitingByChanges =
    candidate !== null && input.commitsEveryVersion && path.length > 0
      ? shortestSum(candidate, path, input.limits) === null
      : identitiesOfPath(path).some((identity) => waiting.has(identity));
  // Only what is demanded is worth another judgement of a version that waits.
  const waits = (listedEntry: ListedEntry, isDemanded: boolean): boolean => {
    const [own = '', ...others] = identitiesOfEntry(listedEntry, metadata);
    return waiting.has(own) || (!isDemanded && others.some((identity) => waiting.has(identity)));
  };
  const pathsFor = (needs: readonly SnapshotNeed[], isDemanded: boolean): readonly PathByLoad[] =>
    listedEntries
      .filter((listedEntry) => !waits(listedEntry, isDemanded))
      .filter((listedEntry) =>
        needs.some((need) => isAnswering(need, listedEntry, { observed, desired, metadata })),
      )
      .map((listedEntry) => present(updatePaths.get(listedEntry), 'every entry has a path'));
  return {
    input,
    constraints,
    demands,
    wish,
    byChain,
    byChanges:
      byChain === null || observed === null || isWaitingByChanges ? null : pathByChanges(observed, byChain),
    isWaitingByChanges,
    demanded: pathsFor(demands, true),
    wished: wish === null ? [] : pathsFor([wish], false),
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
function planBehind(found: Survey, failedBefore: FailedBefore): Plan {
  const { byChanges, demanded, wished, input, byChain, constraints } = found;
  const isFresh = ({ entry }: ListedEntry): boolean =>
    !failedBefore.snapshot(entry, publishedAtOf(entry.version, constraints.metadata));
  const fresh = (updatePaths: readonly PathByLoad[]): readonly PathByLoad[] =>
    updatePaths.filter(({ schema, listedEntry }) => schema !== null && isFresh(listedEntry));
  const best = bestPath(fresh(demanded));
  if (best !== null) return load(best, whyDemanded(found), found);
  const next =
    byChanges !== null && input.commitsEveryVersion
      ? byChanges
      : bestPath([...(byChanges === null ? [] : [byChanges]), ...fresh(wished)]);
  if (next?.kind === 'load') return load(next, whyWished(next, found), found);
  if (next?.kind === 'changes') {
    const bad = badOnTheWay(found, failedBefore);
    return bad === null ? apply(found, null) : aroundBad(bad, fresh(wished), found);
  }
  throwViolation(found);
  if (demanded.length + wished.length > 0) return REPORT_FAILURE;
  if (found.demands.length === 0 && byChain !== null && byChain.stop === null) {
    return wait('list-lags', untilVoid(input));
  }
  return nothingAnswers(found);
}

/**
 * An entry that is older than the table and no newer than the list may be missing from a list that was not read back that
 * far.
 */
function nothingAnswers({ input, constraints }: Survey): Plan {
  const { listedEntries, observed } = input;
  const until = untilAnswered(input, constraints.metadata);
  if (listedEntries.length === 0) return wait('not-listed', until);
  const unread = Math.min(observed?.version ?? 0, headOf(constraints.metadata)?.version ?? 0);
  const isListed = (listedEntry: ListedEntry): boolean =>
    listedEntry.entry.version < unread || confirmationOf(listedEntry, constraints.metadata) === 'named';
  if (listedEntries.some(isListed)) return wait('manifest-lags', until);
  const [differing] = listedEntries.flatMap(
    ({ entry }) => differingCounts(entry, constraints.metadata) ?? [],
  );
  if (differing === undefined) return wait('entry-unlisted', until);
  return { kind: 'wait', why: 'entry-differs', until, ...differing };
}

function untilAnswered(
  { observed, desired, listedEntries, manifestLagMs }: WithEntries,
  metadata: Metadata,
): Until {
  return answeredAt({ observed, desired, metadata }, listedEntries, manifestLagMs);
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
  if (unlisted !== undefined) schemaOfSnapshot(unlisted.listedEntry.entry, constraints.metadata);
  if (byChain?.stop?.violation) throw byChain.stop.violation;
}

function load({ listedEntry }: PathByLoad, why: string, { input, constraints }: Survey): Plan {
  const { observed, desired } = input;
  const reloads = satisfiedAfter(listedEntry, { observed, desired, metadata: constraints.metadata });
  return { kind: 'load', listedEntry, reloads, why };
}

/** Returns the first version whose changes would be applied next and failed before. */
function badOnTheWay({ byChain }: Survey, failedBefore: FailedBefore): Version | null {
  return cutToLimits(byChain?.path ?? []).find(failedBefore.changes) ?? null;
}

/**
 * The snapshot of a later version is other content, so it leads around changes that failed. Without such a snapshot the
 * table moves to the version before them.
 */
function aroundBad(bad: Version, loads: readonly PathByLoad[], found: Survey): Plan {
  const around = bestPath(loads.filter(({ listedEntry: { entry } }) => entry.version > bad.version));
  if (around !== null) {
    return load(around, `the changes of version ${bad.version} cannot be mirrored`, found);
  }
  const isFirst = present(found.byChain, 'changes lead along a path').path[0] === bad;
  return isFirst ? REPORT_FAILURE : apply(found, bad);
}

/** `before`: the version that the changes do not reach; null: none. */
function apply({ input, constraints, byChain }: Survey, before: Version | null): Plan {
  const whole = cutToLimits(present(byChain, 'changes lead along a path').path);
  const path = before === null || !whole.includes(before) ? whole : whole.slice(0, whole.indexOf(before));
  const candidate = candidateOf(input);
  const versions = input.commitsEveryVersion && candidate === null ? path.slice(0, 1) : path;
  // A version that a gate holds back is judged together with those after it.
  const isSummed = input.commitsEveryVersion && candidate !== null;
  const sum = isSummed ? shortestSum(candidate, path, input.limits) : null;
  const last = present(versions.at(-1), 'a path that leads on has a last version');
  const named = present(last.schemaVersion, 'a version without a schema stops a walk');
  const schema = schemaNamed(named, last, constraints.metadata);
  const addsColumns = named !== input.observed?.schemaVersion;
  return { kind: 'apply', versions, schema, addsColumns, ...(sum === null ? {} : { shortestSum: sum }) };
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
    const expected = schemaVersionAt(observed?.version ?? entry.version, found.constraints.metadata);
    return `the table has schema ${observed?.schemaVersion ?? 'unknown'}, and its version has schema ${expected}`;
  }
  if (found.byChain === null) return 'the table takes no changes until its reload is answered';
  const { path, stop } = found.byChain;
  const end = path.at(-1)?.version ?? observed?.version ?? 0;
  if (entry.version <= end) return `it is less work than the changes of ${plural(path.length, 'version')}`;
  return stop?.why ?? `the list of versions does not reach version ${entry.version} yet`;
}
