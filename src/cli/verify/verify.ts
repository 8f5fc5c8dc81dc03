/**
 * `feed-sync verify`: compares the mirror with its own catalog and with the service. Works beside a running instance,
 * stores nothing,
 * and does not ask about anything that the service has refused. A refusal of its own requests is shown and not stored: the
 * next catch-up
 * meets and stores it, and until then each run of verify may ask again.
 */

import type { Configuration, LocalConfiguration } from '../../configuration/configuration.ts';
import type { CountedDataset } from '../../destination/duckdb/count-tables.ts';
import { createFeed } from '../../feed/create-feed.ts';
import { UsageError } from '../../model/errors.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { type DatasetReport, type Report, reportOf } from '../../reporting/report.ts';
import {
  type MirrorContent,
  type MirrorPlace,
  mirrorContent,
  readCheckpoint,
  usingMirror,
} from '../../reporting/stores.ts';
import { type Context, write } from '../context.ts';
import type { ExitCode } from '../exit-codes.ts';
import { logFor } from '../log-for.ts';
import { formatUnknown } from '../render/messages.ts';
import { jsonText } from '../render/table.ts';
import { feedOptions, isKnownOrigin, keyHashOf } from '../service-client.ts';
import { type Answers, askService } from './differences.ts';
import {
  type Comparison,
  exitCodeOfFindings,
  type Findings,
  renderVerification,
  suspensionsOf,
  verificationOf,
} from './render.ts';

export interface VerifyOptions {
  /** None: every dataset of the mirror or of the desired state. */
  readonly datasetIds: readonly string[];
  readonly json: boolean;
}

/**
 * @throws UsageError for a dataset that neither the mirror nor the desired state contains. @throws StorageError when there
 * is no mirror or it cannot be read; BusyError when a writer has locked it.
 */
export async function verify(
  configuration: Configuration,
  context: Context,
  { datasetIds, json }: VerifyOptions,
): Promise<ExitCode> {
  const mirror = await usingMirror(configuration, context, mirrorContent);
  const chosen = chooseDatasets(datasetIds, reportNow(mirror, configuration, context));
  const findings = await compare(chosen, mirror, configuration, context);
  const view = verificationOf(findings);
  const { stdout, width } = context.terminal;
  await write(
    stdout,
    json ? jsonText(view) : `${renderVerification(view, suspensionsOf(findings), width)}\n`,
  );
  return exitCodeOfFindings(findings);
}

function reportNow(mirror: MirrorContent, configuration: Configuration, { identity }: Context): Report {
  return reportOf({
    mirror,
    checkpoint: readCheckpoint(configuration, identity.uid),
    choices: configuration.datasets,
    keyHash: keyHashOf(configuration.service),
  });
}

async function compare(
  datasetIds: readonly string[],
  mirror: MirrorContent,
  configuration: Configuration,
  context: Context,
): Promise<Findings> {
  const counted = await countMirror(datasetIds, configuration, context);
  // Read again, so that the service is not asked about a dataset that it refused while the tables were counted.
  const report = reportNow(mirror, configuration, context);
  const datasets = datasetIds.map((datasetId) => ({
    datasetId,
    comparison: comparisonOf(report.datasets.get(datasetId) ?? null, report),
    counted: counted.get(datasetId) ?? null,
  }));
  const workspaceSuspension = report.suspensions.workspace;
  const tables = datasets.flatMap(({ comparison, counted: one }) =>
    comparison.kind === 'followed' && one !== null ? one.observed : [],
  );
  const answers: Answers =
    workspaceSuspension === null
      ? await ask(tables, mirror, report, configuration, context)
      : { ofDatasets: new Map(), problem: null };
  return {
    mirror: configuration.destination.path,
    workspaceSuspension,
    problem: answers.problem,
    datasets: datasets.map((one) => ({ ...one, answer: answers.ofDatasets.get(one.datasetId) ?? null })),
  };
}

async function ask(
  tables: readonly ObservedTable[],
  mirror: MirrorContent,
  { checkpoint: { contract, forgotten } }: Report,
  configuration: Configuration,
  context: Context,
): Promise<Answers> {
  const feed = createFeed({
    ...feedOptions(configuration, context, logFor(configuration, context.terminal)),
    remembered: contract,
    isKnownOrigin: async () => isKnownOrigin(configuration, mirror),
  });
  try {
    return await askService(feed, { observed: mirror, forgotten }, tables, context.signal);
  } finally {
    await feed.close();
  }
}

/**
 * Returns every dataset of the mirror or of the desired state, or the named ones among them. @throws UsageError for a named
 * one that is
 * neither.
 */
export function chooseDatasets(named: readonly string[], { datasets }: Report): readonly string[] {
  if (named.length > 0) {
    refuseUnknown(named, [...datasets.keys()]);
    return [...new Set(named)].sort();
  }
  const compared = [...datasets.values()].filter(({ observed, isChosen }) => observed !== null || isChosen);
  return compared.map(({ id }) => id);
}

/** @throws UsageError */
function refuseUnknown(named: readonly string[], known: readonly string[]): void {
  const unknown = named.filter((id) => !known.includes(id));
  if (unknown.length === 0) return;
  throw new UsageError(`Neither in the mirror nor wanted: ${formatUnknown(unknown, known)}.`, {
    hint: 'feed-sync status lists the datasets.',
  });
}

/** Null: neither store knows the dataset. Before any subscription was followed every dataset of the mirror counts as followed. */
export function comparisonOf(dataset: DatasetReport | null, { checkpoint, suspensions }: Report): Comparison {
  const members = dataset?.desired?.members.size ?? 0;
  if (dataset === null || (members === 0 && checkpoint.followed.size > 0)) {
    return { kind: 'not-desired', isApprovalAwaited: suspensions.retirement !== null };
  }
  const { isChosen, suspension } = dataset;
  if (!isChosen) return { kind: 'left-out' };
  return suspension === null ? { kind: 'followed' } : { kind: 'suspended', suspension };
}

/** No further table is started after this time. A table is counted as a whole, however long that takes. */
const MAX_TURN_MS = 2_000;
const MAX_TURN_TABLES = 100;
/** Longer than a writer waits between two attempts to open the file. */
const PAUSE_MS = 1_000;

/** Returns, by dataset id, the datasets that are still in the mirror when they are counted. */
export async function countMirror(
  datasetIds: readonly string[],
  configuration: LocalConfiguration,
  place: MirrorPlace,
): Promise<ReadonlyMap<string, CountedDataset>> {
  const { clock, signal } = place;
  const counted = new Map<string, CountedDataset>();
  for (let next = 0; next < datasetIds.length; ) {
    if (next > 0) await clock.sleep(PAUSE_MS, signal);
    const ids = datasetIds.slice(next, next + MAX_TURN_TABLES);
    const turn = await usingMirror(configuration, place, (reader) => {
      const endMs = clock.monotonicMs() + MAX_TURN_MS;
      return reader.count(ids, () => clock.monotonicMs() >= endMs);
    });
    for (const one of turn) counted.set(one.observed.datasetId, one);
    const last = turn.at(-1)?.observed.datasetId;
    next += last === undefined ? ids.length : ids.indexOf(last) + 1;
  }
  return counted;
}
