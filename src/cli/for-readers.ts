/** What a configuration asks for on behalf of those who build on the mirror, and what `once` does about it at its end. */

import type { Configuration } from '../configuration/configuration.ts';
import type { Readers } from '../daemon/after-commit.ts';
import type { Outlet, Publication } from '../destination/publication.ts';
import { feedProgram } from '../lib/run-program.ts';
import { formatBytes, formatCount } from '../lib/units.ts';
import { Hook, hookEnvironment } from '../post-commit/hook.ts';
import type { Parts } from '../sync/parts.ts';
import type { Context } from './context.ts';
import { type ExitCode, exitCodeOf } from './exit-codes.ts';
import { tellError } from './render/messages.ts';

interface ReadersOptions {
  readonly configuration: Configuration;
  readonly context: Context;
  readonly parts: Parts;
  readonly outlet: Outlet;
  /** Ends the command after commits when aborted. */
  readonly signal: AbortSignal;
}

export function readersOf({ configuration, context, parts, outlet, signal }: ReadersOptions): Readers {
  const { destination, hooks, service } = configuration;
  const { publish } = destination;
  if (hooks.afterCommit === null) return { outlet, publish, hook: null };
  const hook = new Hook({
    command: hooks.afterCommit,
    timeoutMs: hooks.timeoutMs,
    environment: hookEnvironment(context.environment, service.apiKey),
    mirrorPath: destination.path,
    publishedPath: publish?.path ?? null,
    outlet,
    checkpoint: parts.checkpoint,
    run: feedProgram,
    clock: context.clock,
    log: parts.log,
    signal,
  });
  return { outlet, publish, hook };
}

/** What was done for readers, for people, and the codes of what went wrong with it. */
interface Served {
  readonly told: readonly string[];
  readonly codes: readonly ExitCode[];
}

/** A copy, where one is missing or older than the mirror; then the command is told, of what the copy has. */
export async function serveReaders({ outlet, publish, hook }: Readers, signal: AbortSignal): Promise<Served> {
  const told: string[] = [];
  if (signal.aborted) return { told, codes: [] };
  try {
    const publication = publish === null ? null : await outlet.publish();
    if (publication?.kind === 'published') told.push(tellPublication(publication, publish?.path ?? ''));
    const commits = (await hook?.tell(linesOf(publication))) ?? 0;
    if (commits > 0) told.push(`The command after commits was told of ${tellCommits(commits)}.`);
    return { told, codes: [] };
  } catch (error) {
    const trouble = error instanceof Error ? error : new Error(String(error));
    return { told: [...told, tellError(trouble)], codes: [exitCodeOf(error)] };
  }
}

/** Null: all that there are. */
function linesOf(publication: Publication | null): number | null {
  if (publication === null) return null;
  return publication.kind === 'absent' ? 0 : publication.lines;
}

function tellPublication(
  { bytes, isClone }: Extract<Publication, { kind: 'published' }>,
  path: string,
): string {
  return `Published a copy at ${path}: ${formatBytes(bytes)}${isClone ? ', as a clone' : ''}.`;
}

function tellCommits(count: number): string {
  return count === 1 ? '1 commit' : `${formatCount(count)} commits`;
}
