/**
 * `feed-sync verify`: compares the mirror with its own books and with the service. Works beside a running instance,
 * stores nothing, and asks nothing about what the service has refused. A refusal met here is shown and not stored:
 * the next catch-up meets and stores it, and until then verify may ask again, once each time a person runs it.
 */

import type { Hold } from '../../checkpoint/checkpoint.ts';
import { openCheckpointReader } from '../../checkpoint/sqlite/open.ts';
import type { Configuration, LocalConfiguration } from '../../configuration/configuration.ts';
import type { Held } from '../../destination/destination.ts';
import type { CountedDataset } from '../../destination/duckdb/count-tables.ts';
import { type MirrorReader, openReader } from '../../destination/duckdb/reader.ts';
import { createFeed } from '../../feed/create-feed.ts';
import type { RememberedContract } from '../../model/contract.ts';
import type { Want } from '../../model/desired-state.ts';
import { StorageError, UsageError } from '../../model/errors.ts';
import type { HeldDataset } from '../../model/write-jobs.ts';
import { isChosenDataset } from '../../sync/follow/subscriptions.ts';
import { holdOfEveryMember, isOfKey } from '../../sync/suspensions.ts';
import { type Context, write } from '../context.ts';
import type { ExitCode } from '../exit-codes.ts';
import { logFor } from '../log-for.ts';
import { feedOptions, isKnownOrigin, keyHashOf } from '../operator-session.ts';
import { tellUnknown } from '../render/messages.ts';
import { jsonText } from '../render/table.ts';
import { type Answers, askService, type Ownership } from './differences.ts';
import {
  exitCodeOfFindings,
  type Findings,
  holdsOf,
  renderVerification,
  type Standing,
  verificationOf,
} from './render.ts';

export interface VerifyOptions {
  /** None: all that is in the mirror or wanted. */
  readonly datasetIds: readonly string[];
  readonly json: boolean;
}

const NOTHING_STORED: Stored = {
  wants: null,
  holds: [],
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
  const held = await readingMirror(configuration, context, (reader) => reader.held());
  const chosen = chooseDatasets(datasetIds, held, readStored(configuration, context), configuration);
  const findings = await compare(chosen, held, configuration, context);
  const view = verificationOf(findings);
  const { stdout, width } = context.terminal;
  await write(stdout, json ? jsonText(view) : `${renderVerification(view, holdsOf(findings), width)}\n`);
  return exitCodeOfFindings(findings);
}

async function compare(
  datasetIds: readonly string[],
  mirror: Held,
  configuration: Configuration,
  context: Context,
): Promise<Findings> {
  const counted = await countMirror(datasetIds, configuration, context);
  // Read again: what was refused while the tables were counted is not asked for.
  const stored = readStored(configuration, context);
  const standings = new Map(datasetIds.map((id) => [id, standingOf(id, stored, configuration)] as const));
  const workspaceHold = workspaceHoldOf(stored, configuration);
  const tables = [...counted.values()].filter(
    ({ held }) => standings.get(held.datasetId)?.kind === 'followed',
  );
  const answers: Answers =
    workspaceHold === null
      ? await ask(
          tables.map(({ held }) => held),
          { held: mirror, forgotten: stored.forgotten },
          stored.contract,
          configuration,
          context,
        )
      : { ofDatasets: new Map(), trouble: null };
  return {
    mirror: configuration.destination.path,
    workspaceHold,
    trouble: answers.trouble,
    datasets: [...standings].map(([datasetId, standing]) => ({
      datasetId,
      standing,
      counted: counted.get(datasetId) ?? null,
      answer: answers.ofDatasets.get(datasetId) ?? null,
    })),
  };
}

async function ask(
  tables: readonly HeldDataset[],
  ownership: Ownership,
  remembered: RememberedContract,
  configuration: Configuration,
  context: Context,
): Promise<Answers> {
  const options = feedOptions(configuration, context, logFor(configuration, context.terminal));
  const feed = createFeed({
    ...options,
    remembered,
    isKnownOrigin: async () => isKnownOrigin(configuration, ownership.held),
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
      wants: reader.followed().size === 0 ? null : reader.wants(),
      holds: reader.holds(),
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
  readonly wants: ReadonlyMap<string, Want> | null;
  readonly holds: readonly Hold[];
  /** Subscriptions that a person gave up and that the mirror may name still. */
  readonly forgotten: readonly string[];
  readonly contract: RememberedContract;
}

/** All that is in the mirror or wanted, or those of it that were named. @throws UsageError for one that is neither. */
export function chooseDatasets(
  named: readonly string[],
  { datasets }: Held,
  { wants }: Stored,
  configuration: Configuration,
): readonly string[] {
  const wanted = [...(wants?.values() ?? [])]
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
  throw new UsageError(`Neither in the mirror nor wanted: ${tellUnknown(unknown, known)}.`, {
    hint: 'feed-sync status lists the datasets.',
  });
}

export function standingOf(
  datasetId: string,
  { wants, holds }: Stored,
  configuration: Configuration,
): Standing {
  const members = [...(wants?.get(datasetId)?.members.keys() ?? [])];
  if (wants !== null && members.length === 0) {
    const isApprovalAwaited = holds.some(({ refusal }) => refusal.scope.kind === 'retirement');
    return { kind: 'not-wanted', isApprovalAwaited };
  }
  if (!isChosen(datasetId, configuration)) return { kind: 'left-out' };
  const hold = holdOf(datasetId, holds) ?? holdOfEveryMember(members, (id) => holdOfSubscription(id, holds));
  return hold === null ? { kind: 'followed' } : { kind: 'held', hold };
}

function holdOf(datasetId: string, holds: readonly Hold[]): Hold | null {
  return (
    holds.find(({ refusal: { scope } }) => scope.kind === 'dataset' && scope.datasetId === datasetId) ?? null
  );
}

function holdOfSubscription(subscriptionId: string, holds: readonly Hold[]): Hold | null {
  const isOfIt = ({ refusal: { scope } }: Hold): boolean =>
    scope.kind === 'subscription' && scope.subscriptionId === subscriptionId;
  return holds.find(isOfIt) ?? null;
}

/** That of another key or base URL stands no more. */
export function workspaceHoldOf({ holds }: Stored, { service }: Configuration): Hold | null {
  const keyHash = keyHashOf(service);
  return holds.find((hold) => hold.refusal.scope.kind === 'workspace' && isOfKey(hold, keyHash)) ?? null;
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
    for (const one of turn) counted.set(one.held.datasetId, one);
    const last = turn.at(-1)?.held.datasetId;
    next += last === undefined ? ids.length : ids.indexOf(last) + 1;
  }
  return counted;
}
