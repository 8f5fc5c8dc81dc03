/** The post-commit work at the end of `once`. */

import type { Publication } from '../destination/publication.ts';
import { formatBytes, formatCount } from '../lib/units.ts';
import type { Readers } from '../post-commit/hook.ts';
import { type ExitCode, exitCodeOf } from './exit-codes.ts';
import { formatError } from './render/messages.ts';

/** The result of the post-commit work, for people, and the codes of its errors. */
interface Served {
  readonly reported: readonly string[];
  readonly codes: readonly ExitCode[];
}

/** Publishes a copy where there is none or an older one, then runs the command for the commits that the copy has. */
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

/** Returns the newest commit in the published copy. Null: no copy is published. */
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
