/**
 * `feed-sync verify`: compares the mirror with its own books and with the service. Works beside a running instance,
 * stores nothing, and asks nothing about what the service has refused. A refusal met here is shown and not stored:
 * the next catch-up meets and stores it, and until then verify may ask again, once each time a person runs it.
 */

import type { Suspension } from '../../checkpoint/checkpoint.ts';
import { openCheckpointReader } from '../../checkpoint/sqlite/open.ts';
import type { Configuration, LocalConfiguration } from '../../configuration/configuration.ts';
import type { ObservedState } from '../../destination/destination.ts';
import type { CountedDataset } from '../../destination/duckdb/count-tables.ts';
import { type MirrorReader, openReader } from '../../destination/duckdb/reader.ts';
import { createFeed } from '../../feed/create-feed.ts';
import type { RememberedContract } from '../../model/contract.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { StorageError, UsageError } from '../../model/errors.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { isChosenDataset } from '../../sync/follow/subscriptions.ts';
import { isOfKey, suspensionOfEveryMember } from '../../sync/suspensions.ts';
import { type Context, write } from '../context.ts';
import type { ExitCode } from '../exit-codes.ts';
import { logFor } from '../log-for.ts';
import { feedOptions, isKnownOrigin, keyHashOf } from '../operator-session.ts';
import { formatUnknown } from '../render/messages.ts';
import { jsonText } from '../render/table.ts';
import { type Answers, askService, type Ownership } from './differences.ts';
import {
  type Comparison,
  exitCodeOfFindings,
  type Findings,
  renderVerification,
  suspensionsOf,
  verificationOf,
} from './render.ts';

export interface VerifyOptions {
  /** None: all that is in the mirror or wanted. */
  readonly datasetIds: readonly string[];
  readonly json: boolean;
}

const NOTHING_STORED: Stored = {
  desiredStates: null,
  suspensions: [],
  forgotten: [],
  contract: { manifestPath: null, newerThanParameter: null },
};

/**
 * @throws UsageError for a dataset that is neither in the mirror nor wanted.
 * @throws StorageError when there is no mirror or it cannot be read; BusyError when a writer keeps it.
 */
export async function verify(
  configuration: Configuration,
  context: Context,
  { datasetIds, json }: VerifyOptions,
): Promise<ExitCode> {
  const observed = await readingMirror(configuration, context, (reader) => reader.observed());
  const chosen = chooseDatasets(datasetIds, observed, readStored(configuration, context), configuration);
  const findings = await compare(chosen, observed, configuration, context);
  const view = verificationOf(findings);
  const { stdout, width } = context.terminal;
  await write(
    stdout,
    json ? jsonText(view) : `${renderVerification(view, suspensionsOf(findings), width)}\n`,
  );
  return exitCodeOfFindings(findings);
}

async function compare(
  datasetIds: readonly string[],
  mirror: ObservedState,
  configuration: Configuration,
  context: Context,
): Promise<Findings> {
  const counted = await countMirror(datasetIds, configuration, context);
  // Read again: what was refused while the tables were counted is not asked for.
  const stored = readStored(configuration, context);
  const results = new Map(datasetIds.map((id) => [id, comparisonOf(id, stored, configuration)] as const));
  const workspaceSuspension = workspaceSuspensionOf(stored, configuration);
  const tables = [...counted.values()].filter(
    ({ observed }) => results.get(observed.datasetId)?.kind === 'followed',
  );
  const answers: Answers =
    workspaceSuspension === null
      ? await ask(
          tables.map(({ observed }) => observed),
          { observed: mirror, forgotten: stored.forgotten },
          stored.contract,
          configuration,
          context,
        )
      : { ofDatasets: new Map(), problem: null };
  return {
    mirror: configuration.destination.path,
    workspaceSuspension,
    problem: answers.problem,
    datasets: [...results].map(([datasetId, comparison]) => ({
      datasetId,
      comparison,
      counted: counted.get(datasetId) ?? null,
      answer: answers.ofDatasets.get(datasetId) ?? null,
    })),
  };
}

async function ask(
  tables: readonly ObservedTable[],
  ownership: Ownership,
  remembered: RememberedContract,
  configuration: Configuration,
  context: Context,
): Promise<Answers> {
  const options = feedOptions(configuration, context, logFor(configuration, context.terminal));
  const feed = createFeed({
    ...options,
    remembered,
    isKnownOrigin: async () => isKnownOrigin(configuration, ownership.observed),
  });
  try {
    return await askService(feed, ownership, tables, context.signal);
  } finally {
    await feed.close();
  }
}

function readStored({ checkpoint: { path } }: Configuration, { identity }: Context): Stored {
  const reader = openCheckpointReader({ path, uid: identity.uid });
  if (reader === null) return NOTHING_STORED;
  try {
    return {
      desiredStates: reader.followed().size === 0 ? null : reader.desiredStates(),
      suspensions: reader.suspensions(),
      forgotten: reader.forgotten(),
      contract: reader.rememberedContract(),
    };
  } finally {
    reader.close();
  }
}

/** What the checkpoint says. Without one, every dataset of the mirror is taken for followed. */
export interface Stored {
  /** Null where no subscription was ever followed: nothing is known of who wants what. */
  readonly desiredStates: ReadonlyMap<string, DesiredState> | null;
  readonly suspensions: readonly Suspension[];
  /** Subscriptions that a person gave up and that the mirror may name still. */
  readonly forgotten: readonly string[];
  readonly contract: RememberedContract;
}

/** All that is in the mirror or wanted, or those of it that were named. @throws UsageError for one that is neither. */
export function chooseDatasets(
  named: readonly string[],
  { datasets }: ObservedState,
  { desiredStates }: Stored,
  configuration: Configuration,
): readonly string[] {
  const wanted = [...(desiredStates?.values() ?? [])]
    .filter(({ members }) => members.size > 0)
    .map(({ datasetId }) => datasetId);
  const known = [...new Set([...datasets.keys(), ...wanted])].sort();
  if (named.length > 0) {
    refuseUnknown(named, known);
    return [...new Set(named)].sort();
  }
  return known.filter((id) => datasets.has(id) || isChosen(id, configuration));
}

/** @throws UsageError */
function refuseUnknown(named: readonly string[], known: readonly string[]): void {
  const unknown = named.filter((id) => !known.includes(id));
  if (unknown.length === 0) return;
  throw new UsageError(`Neither in the mirror nor wanted: ${formatUnknown(unknown, known)}.`, {
    hint: 'feed-sync status lists the datasets.',
  });
}

export function comparisonOf(
  datasetId: string,
  { desiredStates, suspensions }: Stored,
  configuration: Configuration,
): Comparison {
  const members = [...(desiredStates?.get(datasetId)?.members.keys() ?? [])];
  if (desiredStates !== null && members.length === 0) {
    const isApprovalAwaited = suspensions.some(({ refusal }) => refusal.scope.kind === 'retirement');
    return { kind: 'not-desired', isApprovalAwaited };
  }
  if (!isChosen(datasetId, configuration)) return { kind: 'left-out' };
  const suspension =
    suspensionOf(datasetId, suspensions) ??
    suspensionOfEveryMember(members, (id) => suspensionOfSubscription(id, suspensions));
  return suspension === null ? { kind: 'followed' } : { kind: 'suspended', suspension };
}

function suspensionOf(datasetId: string, suspensions: readonly Suspension[]): Suspension | null {
  return (
    suspensions.find(({ refusal: { scope } }) => scope.kind === 'dataset' && scope.datasetId === datasetId) ??
    null
  );
}

function suspensionOfSubscription(
  subscriptionId: string,
  suspensions: readonly Suspension[],
): Suspension | null {
  const isOfIt = ({ refusal: { scope } }: Suspension): boolean =>
    scope.kind === 'subscription' && scope.subscriptionId === subscriptionId;
  return suspensions.find(isOfIt) ?? null;
}

/** That of another key or base URL stands no more. */
export function workspaceSuspensionOf(
  { suspensions }: Stored,
  { service }: Configuration,
): Suspension | null {
  const keyHash = keyHashOf(service);
  return (
    suspensions.find(
      (suspension) => suspension.refusal.scope.kind === 'workspace' && isOfKey(suspension, keyHash),
    ) ?? null
  );
}

function isChosen(datasetId: string, { datasets }: Configuration): boolean {
  return isChosenDataset(datasetId, datasets.include, datasets.exclude);
}

type ReadingContext = Pick<Context, 'clock' | 'random' | 'signal'>;

/** After so long no further table is begun. A table is counted as a whole, however long that takes. */
const MAX_TURN_MS = 2_000;
const MAX_TURN_TABLES = 100;
/** Longer than a writer waits between two attempts to open the file. */
const PAUSE_MS = 1_000;

/**
 * What `use` makes of the mirror, which is let go of then.
 * @throws StorageError where there is no mirror, or it cannot be read.
 * @throws BusyError where a writer keeps it for longer than `lock.wait`.
 */
export async function readingMirror<T>(
  configuration: LocalConfiguration,
  { clock, random, signal }: ReadingContext,
  use: (reader: MirrorReader) => Promise<T>,
): Promise<T> {
  const { path } = configuration.destination;
  const options = { path, waitMs: configuration.lock.waitMs, ...configuration.duckdb, clock, random, signal };
  const reader = await openReader(options);
  if (reader === null) {
    throw new StorageError(`There is no mirror at ${path}.`, { hint: 'Make it with: feed-sync once' });
  }
  try {
    return await use(reader);
  } finally {
    await reader.close();
  }
}

/** Those of the datasets that the mirror still holds when their turn comes, by dataset id. */
export async function countMirror(
  datasetIds: readonly string[],
  configuration: LocalConfiguration,
  context: ReadingContext,
): Promise<ReadonlyMap<string, CountedDataset>> {
  const { clock, signal } = context;
  const counted = new Map<string, CountedDataset>();
  for (let next = 0; next < datasetIds.length; ) {
    if (next > 0) await clock.sleep(PAUSE_MS, signal);
    const ids = datasetIds.slice(next, next + MAX_TURN_TABLES);
    const turn = await readingMirror(configuration, context, (reader) => {
      const endMs = clock.monotonicMs() + MAX_TURN_MS;
      return reader.count(ids, () => clock.monotonicMs() >= endMs);
    });
    for (const one of turn) counted.set(one.observed.datasetId, one);
    const last = turn.at(-1)?.observed.datasetId;
    next += last === undefined ? ids.length : ids.indexOf(last) + 1;
  }
  return counted;
}
