/** `feed-sync approve`: lets exactly one candidate past its gate, or lists what waits for approval. */

import type { Configuration, LocalConfiguration } from '../../configuration/configuration.ts';
import { printable } from '../../lib/text.ts';
import { plural } from '../../lib/units.ts';
import type { Candidate } from '../../model/candidate.ts';
import { UsageError } from '../../model/errors.ts';
import { candidateJson } from '../../reporting/status.ts';
import { NO_CHECKPOINT, readCheckpoint } from '../../reporting/stores.ts';
import { type ApprovalParameters, approvalParameters } from '../../sync/approve.ts';
import { approveCommand, effectOf, suspensionOfCandidate } from '../../sync/candidates.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { performRequest } from '../operator-request.ts';
import { jsonText } from '../render/formats.ts';
import { formatSuspension } from '../render/messages.ts';

export interface ApproveFlags {
  readonly version?: string;
  readonly content?: string;
}

/** Approves a candidate. @throws RequestRefusedError where other content waits, or none. @throws UsageError for an incomplete command. */
export async function approve(
  datasetId: string,
  flags: ApproveFlags,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const parameters = parametersOf(flags);
  if (parameters === null) throw await incomplete(datasetId, configuration, context);
  const text = await performRequest({ datasetId, command: 'approve', parameters }, configuration, context);
  await write(context.terminal.stdout, `${printable(text)}\n`);
  return EXIT_CODES.caughtUp;
}

/** Version and content name the candidate that the operator has seen, because another may replace it. Null: one is missing or wrong. */
function parametersOf({ version = '', content = '' }: ApproveFlags): ApprovalParameters | null {
  const parsed = approvalParameters.safeParse({
    version: /^\d{1,15}$/.test(version) ? Number(version) : null,
    content: content.toLowerCase(),
  });
  return parsed.success ? parsed.data : null;
}

/** The example is the command for what waits. */
async function incomplete(
  datasetId: string,
  configuration: LocalConfiguration,
  context: Context,
): Promise<UsageError> {
  const waiting = (await candidatesIn(configuration, context)).find((one) => one.datasetId === datasetId);
  const example =
    waiting === undefined
      ? 'For example: feed-sync approve parcels --version 12 --content 3f9a1c20. Without a dataset it lists what waits.'
      : `It waits: ${effectOf(waiting)}. To commit exactly this: ${approveCommand(waiting)}`;
  return new UsageError(
    'approve needs the version and the content of what is approved, as status shows them.',
    { hint: example },
  );
}

export async function listCandidates(
  configuration: LocalConfiguration,
  context: Context,
  json: boolean,
): Promise<ExitCode> {
  const candidates = await candidatesIn(configuration, context);
  const text = json ? jsonText(listJson(candidates)) : listText(candidates);
  await write(context.terminal.stdout, text);
  return EXIT_CODES.caughtUp;
}

/** With PostgreSQL the database has them: whichever instance works there. */
async function candidatesIn(
  configuration: LocalConfiguration,
  { clock, identity }: Context,
): Promise<readonly Candidate[]> {
  const { postgres } = configuration.destination;
  if (postgres === null) return (readCheckpoint(configuration, identity.uid) ?? NO_CHECKPOINT).candidates;
  // Loaded only where it is used, like the implementation of a command.
  const { candidatesOf } = await import('../../destination/postgres/candidates.ts');
  return await candidatesOf({ url: postgres.url, clock });
}

function listJson(candidates: readonly Candidate[]) {
  return {
    datasets: candidates.map((candidate) => ({ id: candidate.datasetId, ...candidateJson(candidate) })),
  };
}

function listText(candidates: readonly Candidate[]): string {
  if (candidates.length === 0) return 'Nothing waits for approval.\n';
  const head = `${plural(candidates.length, 'commit')} ${candidates.length === 1 ? 'waits' : 'wait'} for approval.`;
  const texts = candidates.map((candidate) => formatSuspension(suspensionOfCandidate(candidate)));
  return `${[head, ...texts].join('\n\n')}\n`;
}
