/** What an operator asks of single tables: rollbacks, the end of pins, and what `verify --deep` finds and mends. */

import pLimit from 'p-limit';
import type { RequestAnswer } from '../../src/checkpoint/requests.ts';
import { performWith, type Requested } from '../../src/cli/operator-request.ts';
import { FeedSyncError } from '../../src/model/errors.ts';
import { commitThatLeft, type PastCommit, type PastState } from '../../src/model/past-states.ts';
import { isPinned, type ObservedTable } from '../../src/model/write-jobs.ts';
import { VERSIONS_AT_ONCE } from '../../src/sync/execute/fetch-changes.ts';
import { fetchContent, findContent } from '../../src/sync/execute/fetch-content.ts';
import { openStaging } from '../../src/sync/execute/staging-folder.ts';
import { KeptManifests } from '../../src/sync/manifest-cache.ts';
import { pastCommitsOf } from '../support/mirror-commits.ts';
import { BrokenRule, refuseBroken } from './rules.ts';
import type { World } from './world.ts';

const SIGNAL = new AbortController().signal;

/** Performs a request as the commands do. Null: it could not be performed, because of an incident of the stores or the service. */
async function ask(requested: Requested, world: World): Promise<RequestAnswer | null> {
  const parts = await world.installation.parts();
  const context = {
    clock: parts.clock,
    identity: { host: 'here', pid: 1, uid: null },
    random: { next: () => world.random.fraction() },
    signal: SIGNAL,
  };
  world.tick();
  const answer = await performWith(parts, requested, context).catch(nullIfExpected);
  if (answer?.kind === 'refused' && answer.error === 'bug') throw new BrokenRule('bug', answer.message);
  refuseBroken(world);
  return answer;
}

function nullIfExpected(error: unknown): null {
  if (error instanceof FeedSyncError) return null;
  throw error;
}

function outcomeOf(answer: RequestAnswer | null): string {
  if (answer === null) return 'it could not be asked';
  return answer.kind === 'done' ? answer.text : answer.message;
}

/** `choose` names a state by the commits of the table. */
export async function rollBack(
  world: World,
  choose: (commits: readonly PastCommit[]) => PastState,
): Promise<string> {
  const { installation, counters } = world;
  const datasetId = world.anyMember();
  const lines = (await installation.readMirror(async (mirror) => mirror.lines.get(datasetId) ?? [])) ?? [];
  const commits = pastCommitsOf(lines);
  let commit: PastCommit;
  try {
    commit = commitThatLeft(datasetId, choose(commits), commits);
  } catch (error) {
    nullIfExpected(error);
    counters.add('rollback: of a state that there never was');
    return `${datasetId}: ${String(error)}`;
  }
  const { commitNumber, toVersion: version } = commit;
  const answer = await ask({ datasetId, command: 'rollback', parameters: { commitNumber, version } }, world);
  counters.add(answer?.kind === 'done' ? 'rollback: done' : 'rollback: refused');
  return `${datasetId} to commit ${commitNumber}, v${version}: ${outcomeOf(answer)}`;
}

/** `resume --dataset` of every table that a rollback keeps where it is. */
export async function endPins(world: World): Promise<number> {
  const pinned = (await world.installation.readMirror(async (mirror) => [...mirror.pinned.keys()])) ?? [];
  for (const datasetId of pinned) {
    const answer = await ask({ datasetId, command: 'resume', parameters: {} }, world);
    if (answer?.kind === 'done') world.counters.add('operator: ends a pin');
  }
  return pinned.length;
}

/** `verify --deep`, with `--repair` where it `repairs`. Says what it found and did. */
export async function verifyDeep(world: World, repairs: boolean): Promise<string> {
  const parts = await world.installation.parts();
  const observed = await parts.destination.has().catch(nullIfExpected);
  const found: string[] = [];
  for (const table of observed?.datasets.values() ?? []) {
    const finding = await verifyTable(table, world, repairs).catch(nullIfExpected);
    world.counters.add(`verify: ${finding?.kind ?? 'not comparable'}`);
    found.push(`${table.datasetId}: ${finding?.text ?? 'not comparable'}`);
  }
  return found.join('; ');
}

interface Finding {
  readonly kind: string;
  readonly text: string;
}

/** Null where the table cannot be compared now. */
async function verifyTable(table: ObservedTable, world: World, repairs: boolean): Promise<Finding | null> {
  const { datasetId, commitNumber } = table;
  const parts = await world.installation.parts();
  const desired = parts.checkpoint.desired(datasetId);
  if (isPinned(table) || desired === null || desired.members.size === 0) return null;
  const source = new KeptManifests(parts).sourceSince(parts.clock.monotonicMs(), () => true);
  const staging = openStaging(parts.choices.stagingDirectory);
  const tools = { parts, staging, fetching: pLimit(VERSIONS_AT_ONCE), signal: SIGNAL };
  const listed = await findContent(table, desired, source, tools);
  if (listed.kind !== 'content') return null;
  const content = await fetchContent(table, listed, source, tools);
  if (typeof content === 'string') return null;
  const compared = await world.installation.compare(table, content);
  await refuseFalseEqual(table, compared.kind, world);
  if (compared.kind === 'different' && repairs) {
    const { version: snapshotVersion, digest: snapshotDigest } = content.snapshot;
    const parameters = { commitNumber, snapshotVersion, snapshotDigest };
    const answer = await ask({ datasetId, command: 'repair', parameters }, world);
    return { kind: answer?.kind === 'done' ? 'repaired' : 'not repaired', text: outcomeOf(answer) };
  }
  if (compared.kind === 'equal' && compared.unrecorded !== null) {
    const { sum, version } = compared.unrecorded;
    const parameters = { commitNumber, sum: String(sum), version };
    const answer = await ask({ datasetId, command: 'store-checksum', parameters }, world);
    return { kind: 'equal, with another checksum', text: outcomeOf(answer) };
  }
  if (compared.kind === 'damaged') parts.checkpoint.requestResync([datasetId]);
  return { kind: compared.kind, text: compared.kind };
}

async function refuseFalseEqual(
  { datasetId, version }: ObservedTable,
  found: string,
  world: World,
): Promise<void> {
  if (found !== 'equal') return;
  const digest = await world.installation.readMirror(async ({ seen }) => seen[datasetId]?.digest);
  const published = (world.published.get(datasetId) ?? []).filter((one) => one.version === version);
  if (published.some((one) => world.stage.digestOf(one) === digest)) return;
  throw new BrokenRule('verify', `${datasetId} v${version} is called equal, and was never published so.`);
}
