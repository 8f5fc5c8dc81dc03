/**
 * Plans the step of a table that something is needed of, from all paths that lead on: by changes along the version chain, and by
 * the snapshots of the manifest. Pure.
 */

import { present } from '../../lib/assert.ts';
import { plural } from '../../lib/units.ts';
import { confirmedAt } from '../../model/absence.ts';
import { announcedVersion } from '../../model/desired-state.ts';
import type { ListedEntry } from '../../model/manifest.ts';
import type { Version } from '../../model/records.ts';
import {
  candidateOf,
  identitiesOfEntry,
  identitiesOfPath,
  shortestSum,
  waitingContent,
} from './candidate.ts';
import type { FailedBefore } from './content.ts';
import {
  answeredAt,
  isAnswering,
  needOfChanges,
  owesResync,
  pendingReloads,
  type SnapshotNeed,
  satisfiedAfter,
} from './need.ts';
import type { Metadata, Plan, PlanInput } from './step.ts';
import { REPORT_FAILURE, type Until, type WithEntries, wait } from './step.ts';
import {
  bestPath,
  type ChainConstraints,
  cutToLimits,
  followChain,
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
  publishedAtOf,
  schemaNamed,
  schemaOfSnapshot,
  schemaVersionAt,
} from './versions.ts';

/** All paths, and the facts that decide between them. */
export interface Survey {
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

export function survey(input: WithEntries, metadata: Metadata): Survey {
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
export function planBehind(found: Survey, failedBefore: FailedBefore): Plan {
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
export function badOnTheWay({ byChain }: Survey, failedBefore: FailedBefore): Version | null {
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
  const named = present(last.schemaVersion, 'a version without a schema stops a version chain');
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
