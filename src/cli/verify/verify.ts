/**
 * `feed-sync verify`: compares the mirror with its own books and with the service. Works beside a running instance,
 * stores nothing, and asks nothing about what the service has refused. A refusal met here is shown and not stored:
 * the next catch-up meets and stores it, and until then verify may ask again, once each time a person runs it.
 */

import { openCheckpointReader } from '../../checkpoint/sqlite/open.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import type { Held, HeldDataset } from '../../destination/destination.ts';
import { createFeed } from '../../feed/create-feed.ts';
import type { RememberedContract } from '../../model/contract.ts';
import type { Context } from '../context.ts';
import type { ExitCode } from '../exit-codes.ts';
import { feedOptions } from '../feed-options.ts';
import { jsonText } from '../json.ts';
import { isKnownOrigin } from '../known-origin.ts';
import { logFor } from '../log-for.ts';
import { write } from '../terminal.ts';
import { countMirror, readingMirror } from './mirror.ts';
import { type Answers, askService, type Ownership } from './service.ts';
import { chooseDatasets, type Stored, standingOf, workspaceHoldOf } from './standing.ts';
import { renderVerification } from './text.ts';
import { exitCodeOfFindings, type Findings, holdsOf, verificationOf } from './view.ts';

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
