/** What a configuration asks for on behalf of those who build on the mirror, and what `once` does about it at its end. */

import type { Configuration } from '../configuration/configuration.ts';
import type { Readers } from '../daemon/after-commit.ts';
import type { PostCommitSource, Publication } from '../destination/publication.ts';
import { feedProgram } from '../lib/run-program.ts';
import { formatBytes, formatCount } from '../lib/units.ts';
import { Hook, hookEnvironment } from '../post-commit/hook.ts';
import type { Parts } from '../sync/parts.ts';
import type { Context } from './context.ts';
import { type ExitCode, exitCodeOf } from './exit-codes.ts';
import { formatError } from './render/messages.ts';

interface ReadersOptions {
  readonly configuration: Configuration;
  readonly context: Context;
  readonly parts: Parts;
  readonly postCommit: PostCommitSource;
  /** Ends the command after commits when aborted. */
  readonly signal: AbortSignal;
}

export function readersOf({ configuration, context, parts, postCommit, signal }: ReadersOptions): Readers {
  const { destination, hooks, service } = configuration;
  const { publish } = destination;
  if (hooks.afterCommit === null) return { postCommit, publish, hook: null };
  const hook = new Hook({
    command: hooks.afterCommit,
    timeoutMs: hooks.timeoutMs,
    environment: hookEnvironment(context.environment, service.apiKey),
    mirrorPath: destination.path,
    publishedPath: publish?.path ?? null,
    postCommit,
    checkpoint: parts.checkpoint,
    run: feedProgram,
    clock: context.clock,
    log: parts.log,
    signal,
  });
  return { postCommit, publish, hook };
}

/** What was done for readers, for people, and the codes of what went wrong with it. */
interface Served {
  readonly reported: readonly string[];
  readonly codes: readonly ExitCode[];
}

/** A copy, where one is missing or older than the mirror; then the command is told, of what the copy has. */
export async function serveReaders(
  { postCommit, publish, hook }: Readers,
  signal: AbortSignal,
): Promise<Served> {
  const reported: string[] = [];
  if (signal.aborted) return { reported, codes: [] };
  try {
    const publication = publish === null ? null : await postCommit.publish();
    if (publication?.kind === 'published') reported.push(formatPublication(publication, publish?.path ?? ''));
    const commits = (await hook?.report(newestCommitIn(publication))) ?? 0;
    if (commits > 0) reported.push(`The command after commits was told of ${reportCommits(commits)}.`);
    return { reported, codes: [] };
  } catch (error) {
    const problem = error instanceof Error ? error : new Error(String(error));
    return { reported: [...reported, formatError(problem)], codes: [exitCodeOf(error)] };
  }
}

/** The newest commit in the published copy. Null: no copy is published. */
function newestCommitIn(publication: Publication | null): number | null {
  if (publication === null) return null;
  return publication.kind === 'absent' ? 0 : publication.commitNumber;
}

function formatPublication(
  { bytes, isClone }: Extract<Publication, { kind: 'published' }>,
  path: string,
): string {
  return `Published a copy at ${path}: ${formatBytes(bytes)}${isClone ? ', as a clone' : ''}.`;
}

function reportCommits(count: number): string {
  return count === 1 ? '1 commit' : `${formatCount(count)} commits`;
}
