/** The post-commit work at the end of `once`. */

import type { Publication } from '../destination/publication.ts';
import { formatBytes, formatCount, plural } from '../lib/units.ts';
import { asError } from '../model/errors.ts';
import type { Readers } from '../post-commit/hook.ts';
import { isDamage } from '../sync/damage.ts';
import { type ExitCode, exitCodeOf } from './exit-codes.ts';
import { formatError } from './render/messages.ts';

/** The result of the post-commit work, for people, and the codes of its errors. */
interface Served {
  readonly reported: readonly string[];
  readonly codes: readonly ExitCode[];
  /** A part of the mirror could not be read. */
  readonly hasMetDamage: boolean;
}

/**
 * Publishes a copy where there is none or an older one, runs the command for the commits that the copy has, and exports. Neither
 * waits for the other to succeed.
 */
export async function serveReaders(readers: Readers, signal: AbortSignal): Promise<Served> {
  if (signal.aborted) return { reported: [], codes: [], hasMetDamage: false };
  const all = [
    await serving((reported) => publishAndReport(readers, reported)),
    await serving((reported) => exportTables(readers, reported)),
  ];
  return {
    reported: all.flatMap(({ reported }) => reported),
    codes: all.flatMap(({ codes }) => codes),
    hasMetDamage: all.some(({ hasMetDamage }) => hasMetDamage),
  };
}

/** Turns an error of the work into what is reported. */
async function serving(work: (reported: string[]) => Promise<void>): Promise<Served> {
  const reported: string[] = [];
  try {
    await work(reported);
    return { reported, codes: [], hasMetDamage: false };
  } catch (error) {
    const problem = asError(error);
    return {
      reported: [...reported, formatError(problem)],
      codes: [exitCodeOf(error)],
      hasMetDamage: isDamage(error),
    };
  }
}

async function publishAndReport({ postCommit, publish, hook }: Readers, reported: string[]): Promise<void> {
  const publication = publish === null || postCommit === null ? null : await postCommit.publish();
  if (publication?.kind === 'published') reported.push(formatPublication(publication, publish?.path ?? ''));
  const commits = (await hook?.report(newestCommitIn(publication))) ?? 0;
  if (commits > 0) reported.push(`The command after commits was notified of ${reportCommits(commits)}.`);
}

async function exportTables({ exports }: Readers, reported: string[]): Promise<void> {
  const exported = (await exports?.exporter.export()) ?? null;
  if (exported === null || exports === null) return;
  const { generation, written, files, bytes } = exported;
  reported.push(
    `Exported generation ${generation} to ${exports.path}: ${plural(files, 'file')}, ${formatCount(written)} new (${formatBytes(bytes)}).`,
  );
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
  return plural(count, 'commit');
}
