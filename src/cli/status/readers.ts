/** What `status` tells of what is done for those who build on the mirror. Pure. */

import type { HookRecord } from '../../checkpoint/checkpoint.ts';
import { printable } from '../../lib/printable.ts';
import { formatCount } from '../../lib/units.ts';
import { tellMomentFrom } from '../moments.ts';
import type { AfterCommitStatus, PublishedCopyStatus, Status } from './shape.ts';

export interface ReadersSeen {
  /** Null: no copy is to be published. `publishedAt`: when the file that is there was; null: there is none. */
  readonly copy: { readonly path: string; readonly publishedAt: Date | null } | null;
  /** Null: no command is to be run. */
  readonly hook: HookRecord | null;
}

export function readersStatus({ copy, hook }: ReadersSeen): {
  readonly publishedCopy: PublishedCopyStatus | null;
  readonly afterCommit: AfterCommitStatus | null;
} {
  return {
    publishedCopy: copy && { path: copy.path, publishedAt: copy.publishedAt?.toISOString() ?? null },
    afterCommit: hook && {
      toldAt: hook.toldAt?.toISOString() ?? null,
      failure: hook.failure && { ...hook.failure, failedAt: hook.failure.failedAt.toISOString() },
    },
  };
}

/** Null where nothing is done for them. */
export function readersText({ publishedCopy, afterCommit }: Status, now: Date): string | null {
  const lines = [
    ...(publishedCopy === null ? [] : [copyLine(publishedCopy, now)]),
    ...(afterCommit === null ? [] : commandLines(afterCommit, now)),
  ];
  return lines.length === 0 ? null : lines.join('\n');
}

function copyLine({ path, publishedAt }: PublishedCopyStatus, now: Date): string {
  if (publishedAt === null) return `No copy is published yet at ${path}.`;
  return `The copy ${path} was published at ${tellMomentFrom(now, publishedAt)}.`;
}

function commandLines({ toldAt, failure }: AfterCommitStatus, now: Date): readonly string[] {
  if (failure === null) {
    return toldAt === null
      ? ['The command after commits was told of nothing yet.']
      : [`The command after commits was last told at ${tellMomentFrom(now, toldAt)}.`];
  }
  const times = failure.attempts === 1 ? '' : ` ${formatCount(failure.attempts)} times, last`;
  return [
    `The command after commits failed${times} at ${tellMomentFrom(now, failure.failedAt)}:`,
    ...failure.message.split('\n').map((line) => `  ${printable(line)}`),
    '→ A running instance tells it again by itself; without one: feed-sync once',
  ];
}
