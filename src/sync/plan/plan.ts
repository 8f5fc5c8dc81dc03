/**
 * Plans the next step of a dataset: a pure function of both stores' state, the manifest entries and the service's lists. No I/O
 * and no clock. The executor decides nothing: the dataset is planned again after each step, until nothing is left to do.
 *
 * The checks run in order of cost: whatever can be decided without asking the service is decided first. A table that needs
 * nothing costs no call, and neither does a table that only a snapshot can help while no manifest lists one.
 */

import { isConfirmed } from '../../model/absence.ts';
import type { Candidate } from '../../model/candidate.ts';
import { announcedVersion, announcedVersions } from '../../model/desired-state.ts';
import type { ListedEntry } from '../../model/manifest.ts';
import type { Version } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { badOnTheWay, planBehind, survey } from './behind.ts';
import {
  candidateOf,
  isLetThrough,
  isWaiting,
  planCandidate,
  versionsBack,
  whyGone,
  whyOver,
} from './candidate.ts';
import { type FailedBefore, failedBefore, oversizedBefore, whyOversized } from './content.ts';
import { type Need, needOf, needOfChanges, orphanReloads, owesWithdrawal, pendingReloads } from './need.ts';
import { retirementReason } from './retirement.ts';
import type { Metadata, Plan, PlanInput } from './step.ts';
import { type WithEntries, wait } from './step.ts';
import { isSurelyBest } from './version-chain.ts';
import { confirmationOf, headOf, mayLackTable, namingOf, publishedAtOf } from './versions.ts';

/** The dataset fell back from the changes to a snapshot that failed. */
const INAPPLICABLE_BEFORE = 'they could not be used before';

/**
 * Names the next step of a dataset. @throws ContractViolationError where the only path leads over a version whose schema the service does
 * not list.
 */
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

const READ_MANIFEST: Plan = { kind: 'read-manifest' };

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
