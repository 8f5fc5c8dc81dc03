/**
 * Which candidate stands for a dataset, what need not be fetched again because of it, and the step that commits exactly the
 * candidate. Pure.
 */

import { baseOf, type Candidate } from '../../model/candidate.ts';
import { type GateLimits, judge } from '../../model/gate.ts';
import type { ListedEntry } from '../../model/manifest.ts';
import type { Version } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { contentOf, pathContentOf, versionContentOf } from './content.ts';
import type { DatasetState } from './dataset-state.ts';
import { pendingReloads } from './need.ts';
import type { Metadata, Plan } from './step.ts';
import { publishedAtOf, recordOf, schemaNamed } from './versions.ts';

/** Returns the candidate that the suspension of the dataset is about. */
export function candidateOf({ suspension }: Pick<DatasetState, 'suspension'>): Candidate | null {
  return suspension?.candidate ?? null;
}

type Stores = Pick<DatasetState, 'desired' | 'observed'>;

/**
 * Returns why a candidate stands no longer, as far as the stores know: a clause; null where it stands. Changes never apply to a
 * table that owes a reload.
 */
export function whyOver(candidate: Candidate, { desired, observed }: Stores): string | null {
  if (observed === null || candidate.base !== baseOf(observed)) return 'its table was changed since';
  const isVoid = candidate.content.kind === 'changes' && pendingReloads(observed, desired).length > 0;
  return isVoid ? 'the service asked for a reload' : null;
}

/** Returns whether the service asked for a reload that the candidate does not satisfy: content that does takes its place. */
export function isVoidedByReload({ content }: Candidate, { desired, observed }: Stores): boolean {
  if (observed === null) return true;
  const satisfied = content.kind === 'snapshot' ? content.reloads : new Map();
  const reloads = new Map([...observed.reloads, ...satisfied]);
  return pendingReloads({ ...observed, reloads }, desired).length > 0;
}

/** Returns the version after which the list is read, because the candidate may be older than the table. Null: all versions are read. */
export function versionsBack({ version }: Candidate, newerThan: number | null): number | null {
  return newerThan === null || version <= 1 ? null : Math.min(newerThan, version - 1);
}

/** Returns a clause that says why the service does not list the content of the candidate any more; null: it does. */
export function whyGone(candidate: Candidate, metadata: Metadata): string | null {
  const { content, alike, version } = candidate;
  const records = recordsOf(candidate, metadata);
  if (records === null) return `version ${version} is not listed any more`;
  const now =
    content.kind === 'snapshot' ? identitiesOfEntry(content.listed, metadata) : [pathContentOf(records)];
  return now.every((identity) => alike.includes(identity)) ? null : `version ${version} was published anew`;
}

/** The records of the versions whose content the candidate has. Null: one of them is missing. */
function recordsOf({ content, version }: Candidate, metadata: Metadata): readonly Version[] | null {
  const versions = content.kind === 'snapshot' ? [version] : content.versions.map((one) => one.version);
  const records = versions.flatMap((one) => recordOf(one, metadata) ?? []);
  return records.length === versions.length ? records : null;
}

/** Returns whether an approval, or limits that were raised since, let exactly the candidate through. */
export function isLetThrough({ approvedAt, judged }: Candidate, limits: GateLimits): boolean {
  return approvedAt !== null || judge(judged.counts, limits).kind !== 'awaiting';
}

/** Returns the content that waits, by what the service states about it. Limits that were raised since let later content through. */
export function waitingContent(
  { alike, later }: Pick<Candidate, 'alike' | 'later'>,
  limits: GateLimits,
): ReadonlySet<string> {
  const still = later.filter(({ counts }) => judge(counts, limits).kind === 'awaiting');
  return new Set([alike, ...still.map((one) => one.alike)].flat());
}

/** Returns the identities of a snapshot: its own first. */
export function identitiesOfEntry({ entry }: ListedEntry, metadata: Metadata): readonly string[] {
  const record = recordOf(entry.version, metadata);
  const own = contentOf(entry, publishedAtOf(entry.version, metadata));
  return record === null ? [own] : [own, versionContentOf(record)];
}

/** Returns the identities of the changes of a path: their own first. */
export function identitiesOfPath(versions: readonly Version[]): readonly string[] {
  const last = versions.at(-1);
  return last === undefined ? [] : [pathContentOf(versions), versionContentOf(last)];
}

/**
 * Returns how many versions of the path the shortest sum has that the gate may let through. Sums that are known to wait are
 * not judged again, and neither are shorter ones. Null: the changes of the whole path wait.
 */
export function shortestSum(
  candidate: Candidate,
  path: readonly Version[],
  limits: GateLimits,
): number | null {
  const waiting = waitingContent(candidate, limits);
  const waits = (versions: readonly Version[]): boolean =>
    identitiesOfPath(versions).some((identity) => waiting.has(identity));
  const sums = [candidate, ...candidate.later].flatMap(({ version, alike }) => {
    const sum = path.slice(0, path.findIndex((one) => one.version === version) + 1);
    return identitiesOfPath(sum).some((identity) => alike.includes(identity)) ? [sum] : [];
  });
  const passing = sums.filter((sum) => !waits(sum)).map(({ length }) => length);
  if (passing.length > 0) return Math.min(...passing);
  if (waits(path)) return null;
  return Math.max(0, ...sums.map(({ length }) => length)) + 1;
}

/** Returns the step that commits exactly the candidate, whatever newer versions there are. */
export function planCandidate(candidate: Candidate, observed: ObservedTable, metadata: Metadata): Plan {
  const { content, approvedAt } = candidate;
  const why = approvedAt === null ? 'the limits of its gate were raised' : 'an operator approved it';
  if (content.kind === 'snapshot') {
    return { kind: 'load', listedEntry: content.listed, reloads: content.reloads, why, candidate };
  }
  const versions = recordsOf(candidate, metadata) ?? [];
  const last = versions.at(-1);
  if (last === undefined) return { kind: 'drop-candidate', why: 'its versions are not listed any more' };
  const named = last.schemaVersion ?? observed.schemaVersion ?? '';
  const schema = schemaNamed(named, last, metadata);
  return { kind: 'apply', versions, schema, addsColumns: named !== observed.schemaVersion, candidate };
}

/** Returns whether the step would fetch content again that waits. */
export function isWaiting(step: Plan, candidate: Candidate, limits: GateLimits, metadata: Metadata): boolean {
  const waiting = waitingContent(candidate, limits);
  if (step.kind === 'apply') {
    return step.shortestSum === undefined && waiting.has(pathContentOf(step.versions));
  }
  return (
    step.kind === 'load' &&
    identitiesOfEntry(step.listedEntry, metadata)
      .slice(0, 1)
      .some((own) => waiting.has(own))
  );
}
