/**
 * `feed-sync verify`: compares the mirror with its own catalog and with the service. Works beside a running instance, stores
 * nothing but that a damaged table is to be loaded again, and does not ask about anything that the service has refused. A refusal
 * of its own requests is shown and not stored: the next catch-up meets and stores it, and until then each run may ask again.
 */

import pLimit from 'p-limit';
import type { Suspension } from '../../checkpoint/checkpoint.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import type { Feed } from '../../feed/feed.ts';
import { printable } from '../../lib/text.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { FeedSyncError, InterruptedError, RefusalError, UsageError } from '../../model/errors.ts';
import type { Version } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { type DatasetReport, type Report, reportOf } from '../../reporting/report.ts';
import { type MirrorContent, mirrorContent, readCheckpoint, usingMirror } from '../../reporting/stores.ts';
import { isDamage } from '../../sync/damage.ts';
import { namedDatasets, refuseForeignMirror } from '../../sync/follow/subscriptions.ts';
import { type Context, write } from '../context.ts';
import type { ExitCode } from '../exit-codes.ts';
import { jsonText } from '../render/formats.ts';
import {
  formatCounts,
  formatSuspension,
  formatUnknown,
  type IncidentRaised,
  knownNames,
} from '../render/messages.ts';
import { readingPlace } from '../render/screen.ts';
import { renderTable, rightAligned } from '../render/table.ts';
import { isKnownOrigin, keyHashOf, usingFeed } from '../service-client.ts';
import { contentLines } from './content-findings.ts';
import { compareContents } from './deep.ts';
import {
  damagedDatasets,
  type ExaminedFiles,
  examineFiles,
  isEnding,
  NOT_EXAMINED,
  suspect,
} from './examined.ts';
import {
  CATCH_UP,
  type Comparison,
  exitCodeOfFindings,
  type Findings,
  suspensionsOf,
  type Verification,
  type VerificationResult,
  verificationOf,
} from './findings.ts';
import { markDamaged, mend } from './mend.ts';
import { pastLines, renewed } from './past.ts';
import { comparePast, countMirror } from './turns.ts';

/**
 * Verifies the named datasets; without any, every dataset of the mirror or of the desired state. @throws UsageError for a
 * dataset that neither contains. @throws StorageError when there is no mirror or it cannot be read; BusyError when a writer
 * has locked it.
 */
export async function verify(
  datasetIds: readonly string[],
  configuration: Configuration,
  context: Context,
  options: VerifyOptions,
): Promise<ExitCode> {
  try {
    return await verified(datasetIds, configuration, context, options);
  } catch (error) {
    // A catch-up that has nothing to do may never read the table of the catalog that was read here.
    if (isDamage(error) && configuration.destination.postgres === null)
      suspect({ mirror: true, copy: false }, configuration, context);
    throw error;
  }
}

async function verified(
  datasetIds: readonly string[],
  configuration: Configuration,
  context: Context,
  { json, deep }: VerifyOptions,
): Promise<ExitCode> {
  const files = deep === null ? NOT_EXAMINED : await examineFiles(configuration, context);
  const mirror = await usingMirror(configuration, readingPlace(configuration, context), mirrorContent);
  const chosen = chooseDatasets(datasetIds, reportNow(mirror, configuration, context));
  const shallow = await compare(chosen, mirror, files, configuration, context);
  const ofPast = { datasetIds: datasetIds.length === 0 ? null : chosen, endingProcess: files.endingProcess };
  const past = await comparePast(ofPast, configuration, readingPlace(configuration, context));
  const marked = markDamaged(
    deep === null ? shallow : await withContents(shallow, mirror, configuration, context, deep),
    configuration,
    context,
  );
  const findings = await renewed({ ...marked, past }, configuration, context);
  const view = verificationOf(findings);
  const { stdout, width } = context.terminal;
  const text = json ? jsonText(view) : `${renderVerification(view, suspensionsOf(findings), width)}\n`;
  await write(stdout, text);
  return exitCodeOfFindings(findings);
}

export interface VerifyOptions {
  readonly json: boolean;
  /** Null: the content is not compared. */
  readonly deep: DeepOptions | null;
}

interface DeepOptions {
  /** How long to wait for tables that the running program has yet to bring to the version of the manifest. */
  readonly waitMs: number;
  readonly repairs: boolean;
  /** The operator has agreed to repairs already. */
  readonly isYes: boolean;
}

async function withContents(
  findings: Findings,
  mirror: MirrorContent,
  configuration: Configuration,
  context: Context,
  { waitMs, ...mending }: DeepOptions,
): Promise<Findings> {
  const report = reportNow(mirror, configuration, context);
  // A table whose reading ends a process is not read in this one.
  const readable = findings.datasets.filter(({ counted }) => !isEnding(counted, findings.files));
  const compared = { ...findings, datasets: readable };
  const contents = await compareContents(compared, report, configuration, context, waitMs);
  const datasets = findings.datasets.map((one) => ({ ...one, content: contents.get(one.datasetId) ?? null }));
  return await mend({ ...findings, datasets }, mending, configuration, context);
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
  files: ExaminedFiles,
  configuration: Configuration,
  context: Context,
): Promise<Findings> {
  const damaged = damagedDatasets(mirror.datasets, files);
  const readable = datasetIds.filter((datasetId) => !damaged.has(datasetId));
  const counted = new Map([
    ...(await countMirror(readable, configuration, readingPlace(configuration, context))),
    ...damaged,
  ]);
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
  const options = {
    remembered: report.checkpoint.contract,
    isKnownOrigin: async () => isKnownOrigin(configuration, mirror),
  };
  const answers: Answers =
    workspaceSuspension === null
      ? await usingFeed(configuration, context, options, (feed) =>
          askService(feed, mirror, report, tables, context.signal),
        )
      : { ofDatasets: new Map(), problem: null };
  return {
    mirror: configuration.destination.place,
    workspaceSuspension,
    problem: answers.problem,
    datasets: datasets.map((one) => ({
      ...one,
      answer: answers.ofDatasets.get(one.datasetId) ?? null,
      content: null,
      mending: null,
    })),
    past: [],
    renewal: null,
    files,
  };
}

/** The number of connections to the service is limited separately. */
const DATASETS_AT_ONCE = 16;

interface Answers {
  /** By dataset id: its versions from the mirrored one on, or why there is no answer. Absent where the service was not asked. */
  readonly ofDatasets: ReadonlyMap<string, readonly Version[] | FeedSyncError>;
  readonly problem: FeedSyncError | null;
}

/** Asks the service about each of the tables. @throws InterruptedError */
async function askService(
  feed: Feed,
  mirror: MirrorContent,
  { checkpoint: { forgotten } }: Report,
  tables: readonly ObservedTable[],
  signal: AbortSignal,
): Promise<Answers> {
  const ofDatasets = new Map<string, readonly Version[] | FeedSyncError>();
  let problem: FeedSyncError | null = null;
  try {
    // Listed first: an unreachable service, or a refused key, costs only this one call.
    const { subscriptions: seen } = await feed.subscriptions(signal);
    await feed.discover(signal);
    refuseForeignMirror(mirror, feed.origin, seen, forgotten);
  } catch (error) {
    return { ofDatasets, problem: reported(error) };
  }
  await pLimit(DATASETS_AT_ONCE).map(tables, async ({ datasetId, version }) => {
    if (problem !== null) return;
    try {
      const { versions } = await feed.versions(datasetId, version - 1, signal);
      ofDatasets.set(datasetId, versions);
    } catch (error) {
      const answer = reported(error);
      const isOfDataset = !(answer instanceof RefusalError) || answer.refusal.scope.kind === 'dataset';
      if (isOfDataset) ofDatasets.set(datasetId, answer);
      else problem = answer;
    }
  });
  return { ofDatasets, problem };
}

/** @throws every error that the service did not cause: an interruption, a bug. */
function reported(error: unknown): FeedSyncError {
  if (error instanceof FeedSyncError && !(error instanceof InterruptedError)) return error;
  throw error;
}

/**
 * Returns every dataset of the mirror or of the desired state, or those among them that ids or globs name. @throws UsageError for a named
 * one that is neither.
 */
export function chooseDatasets(named: readonly string[], { datasets }: Report): readonly string[] {
  if (named.length === 0) {
    const compared = [...datasets.values()].filter(({ observed, isChosen }) => observed !== null || isChosen);
    return compared.map(({ id }) => id);
  }
  const { datasetIds, unknown } = namedDatasets(named, [...datasets.keys()]);
  if (unknown.length === 0) return datasetIds;
  throw new UsageError(
    `Neither in the mirror nor in a subscription: ${formatUnknown(unknown, [...datasets.keys()])}.`,
    { hint: knownNames([...datasets.keys()], 'feed-sync status lists the datasets.') },
  );
}

/**
 * Returns the comparison of a dataset. Null: neither store knows the dataset. Before any subscription was followed every dataset of the
 * mirror counts as followed.
 */
export function comparisonOf(dataset: DatasetReport | null, { checkpoint, suspensions }: Report): Comparison {
  const members = dataset?.desired?.members.size ?? 0;
  if (dataset === null || (members === 0 && checkpoint.followed.size > 0)) {
    return { kind: 'not-desired', isApprovalAwaited: suspensions.retirement !== null };
  }
  const { isChosen, suspension } = dataset;
  if (!isChosen) return { kind: 'left-out' };
  return suspension === null ? { kind: 'followed' } : { kind: 'suspended', suspension };
}

const WORDS: Readonly<Record<VerificationResult, string>> = {
  equal: 'equal',
  behind: 'behind',
  different: 'different',
  'not-asked': 'not compared with the service',
  'not-followed': 'left out by the settings',
};

/** Renders the verification. `suspensions`: those from before the comparison. `width`: columns of the screen. Pure. */
export function renderVerification(
  { mirror, datasets, past, renewal, copy, problem }: Verification,
  suspensions: readonly Suspension[],
  width: number,
): string {
  return [
    ...(datasets.length === 0 ? [`The mirror ${mirror} holds no dataset.`] : [tableOf(datasets, width)]),
    ...section(
      'Differences',
      datasets.filter(({ differences }) => differences.length > 0).map(differencesText),
    ),
    ...section('Content', datasets.flatMap(contentText)),
    ...section('The past', past.flatMap(pastLines)),
    ...section('The published copy', copy === null || copy.damage.length === 0 ? [] : [copyText(copy)]),
    ...section(
      'Done',
      [...datasets, { mending: renewal }].flatMap(({ mending }) =>
        mending === null ? [] : printable(mending.message),
      ),
    ),
    ...suspensions.flatMap((one) => ['', formatSuspension(one)]),
    ...section('Not compared with the service', problem === null ? [] : [problemText(problem)]),
    ...section(
      'No answer',
      datasets.flatMap(({ id, problem: why }) =>
        why === null ? [] : `${printable(id)}: ${problemText(why)}`,
      ),
    ),
    '',
    headline(datasets),
  ].join('\n');
}

type DatasetVerification = Verification['datasets'][number];

function tableOf(datasets: readonly DatasetVerification[], width: number): string {
  const columns = [
    { title: 'dataset' },
    rightAligned('version'),
    rightAligned('newest'),
    rightAligned('rows'),
    { title: 'result', wraps: true },
  ];
  const rows = datasets.map(({ id, version, newestVersion, rows: count, result }) => [
    id,
    version === null ? '' : String(version),
    newestVersion === null ? '' : String(newestVersion),
    count === null ? '' : formatCount(count),
    WORDS[result],
  ]);
  return renderTable(columns, rows, width);
}

/** Several differences that the same command mends name it once. */
function differencesText({ id, differences }: DatasetVerification): string {
  const remedies = [...new Set(differences.map(({ remedy }) => remedy))];
  return [
    ...differences.map(({ message }) => `${printable(id)}: ${printable(message)}`),
    ...remedies.map((remedy) => `→ ${printable(remedy)}`),
  ].join('\n  ');
}

function contentText({ id, content }: DatasetVerification): readonly string[] {
  return (content === null ? [] : contentLines(content)).map(
    (line) => `${printable(id)}: ${printable(line)}`,
  );
}

function copyText({ path, damage }: NonNullable<Verification['copy']>): string {
  const lines = damage.map((one) => `  ${printable(one)}`);
  return [`${printable(path)} is damaged:`, ...lines, `→ ${CATCH_UP}`].join('\n');
}

function problemText({ message, hint, links }: IncidentRaised): string {
  return [
    printable(message),
    ...Object.entries(links).map(([name, url]) => `  ${printable(name)}: ${printable(url)}`),
    ...(hint === null ? [] : [`→ ${printable(hint)}`]),
  ].join('\n');
}

function headline(datasets: readonly DatasetVerification[]): string {
  const entries = Object.entries(WORDS).map(([result, words]) => {
    return { words, counts: (dataset: DatasetVerification) => dataset.result === result };
  });
  return `${formatCounts(plural(datasets.length, 'dataset'), datasets, entries)}.`;
}

function section(title: string, texts: readonly string[]): readonly string[] {
  if (texts.length === 0) return [];
  return ['', `${title}:`, ...texts.map((text) => text.replaceAll(/^/gm, '  '))];
}
