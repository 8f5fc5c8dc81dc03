/**
 * Runs the user's command after commits.
 *
 * Invariants: the command is notified of every commit at least once, in order, and of none before it is committed. A
 * notification is stored after the command has succeeded, so it is repeated where this process or the command ends
 * before. The command runs once at a time.
 */

import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { CommitPage, CommitSource, PostCommitSource } from '../destination/publication.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { FeedProgram } from '../lib/run-program.ts';
import { containsSecret, type Secret } from '../lib/secret.ts';
import { formatDuration } from '../lib/units.ts';
import type { CommitRecord } from '../model/commits.ts';
import { ConfigurationError, HookError, InterruptedError } from '../model/errors.ts';
import type { Exporter } from './export/export.ts';
import type { Notifications } from './notifications.ts';

/** The most commits of one notification; further commits follow in the next one, directly afterwards. */
export const MAX_COMMITS_AT_ONCE = 1_000;

export interface HookParts {
  /** The program and its arguments. */
  readonly command: readonly string[];
  readonly timeoutMs: number;
  readonly environment: Readonly<Record<string, string>>;
  /** The path of the mirror, or the address of the database without its password. */
  readonly mirrorPath: string;
  readonly publishedPath: string | null;
  readonly postCommit: CommitSource;
  readonly checkpoint: Pick<Checkpoint, 'hook' | 'hookReported' | 'hookFailed'>;
  readonly run: FeedProgram;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborted to end the command. */
  readonly signal: AbortSignal;
}

/** The configured work for readers of the mirror. */
export interface Readers {
  /** Null: the destination is no file, of which there could be a copy. */
  readonly postCommit: Pick<PostCommitSource, 'publish'> | null;
  /** How often a copy is published at most, and where; null: none is published. */
  readonly publish: { readonly path: string; readonly everyMs: number } | null;
  /** How often a generation is exported at most, and where; null: nothing is exported. */
  readonly exports: {
    readonly path: string;
    readonly everyMs: number;
    readonly exporter: Pick<Exporter, 'export'>;
  } | null;
  readonly hook: Pick<Hook, 'report'> | null;
  /** Null: operators are notified of nothing. */
  readonly notifications: Pick<Notifications, 'notify' | 'keep'> | null;
}

export class Hook {
  readonly #parts: HookParts;

  constructor(parts: HookParts) {
    this.#parts = parts;
  }

  /**
   * Notifies the command of all further commits up to the number `upTo`; null: up to the newest. @returns the number of
   * these commits. @throws HookError where the command failed, ConfigurationError where it cannot be run;
   * InterruptedError; the errors of the stores.
   */
  async report(upTo: number | null): Promise<number> {
    const { postCommit, checkpoint, clock } = this.#parts;
    for (let reported = 0; ; ) {
      const page = await postCommit.commits(checkpoint.hook().reported, { limit: MAX_COMMITS_AT_ONCE, upTo });
      if (page.commits.length === 0) return reported;
      await this.#reportTo(page);
      checkpoint.hookReported(page.position, clock.now());
      await this.#storeBookmark(page);
      reported += page.commits.length;
      if (!page.hasMore) return reported;
    }
  }

  /** With the mirror, so that a lost checkpoint repeats no old commits. A failure is only logged: the checkpoint has it. */
  async #storeBookmark({ position }: CommitPage): Promise<void> {
    try {
      await this.#parts.postCommit.storeBookmark(position);
    } catch (error) {
      this.#parts.log.warn(
        { commit: position.commitNumber, why: String(error) },
        'The position of the command after commits was stored in the checkpoint, but not with the mirror.',
      );
    }
  }

  async #reportTo(page: CommitPage): Promise<void> {
    const { clock, log, signal } = this.#parts;
    if (signal.aborted) throw interrupted(signal);
    const startedMs = clock.monotonicMs();
    const error = await this.#run(page);
    if (error !== null) throw error;
    const durationMs = Math.round(clock.monotonicMs() - startedMs);
    log.info({ commits: page.commits.length, durationMs }, 'Notified the command after commits.');
  }

  /** The output may hold secrets of the command: it goes to the log, and into no error, store or answer. */
  #logOutput(program: string, end: Failed): void {
    if (end.kind === 'not-started') return;
    const output = end.output === '' ? null : end.output;
    this.#parts.log.warn(
      { program, output },
      'The command after commits failed. This is the end of its output.',
    );
  }

  async #run({ commits, hasMore }: CommitPage): Promise<Error | null> {
    const { command, run, checkpoint, clock, signal, mirrorPath, publishedPath } = this.#parts;
    const { timeoutMs, environment } = this.#parts;
    const [file = '', ...args] = command;
    const input: HookInput = {
      mirror: mirrorPath,
      publishedCopy: publishedPath,
      commits: commits.map(hookCommit),
      hasMore,
    };
    const end = await run({
      file,
      args,
      environment,
      input: `${JSON.stringify(input)}\n`,
      timeoutMs,
      clock,
      signal,
    });
    if (end.kind === 'done') return null;
    if (end.kind === 'interrupted') return interrupted(signal);
    this.#logOutput(file, end);
    const error = errorOf(file, timeoutMs, end);
    checkpoint.hookFailed(error.message, clock.now());
    return error;
  }
}

type Failed = Exclude<Awaited<ReturnType<FeedProgram>>, { readonly kind: 'done' | 'interrupted' }>;

function errorOf(file: string, timeoutMs: number, end: Failed): HookError | ConfigurationError {
  if (end.kind === 'not-started') {
    return new ConfigurationError(`The command after commits, ${file}, cannot be run: ${end.reason}.`, {
      hint: 'Set hooks.afterCommit to a program that this user may run; a path starts at the folder of the settings file.',
    });
  }
  const how = end.kind === 'late' ? `took longer than ${formatDuration(timeoutMs)} and was ended` : end.how;
  return new HookError(`The command after commits, ${file}, ${how}.`, {
    hint: 'Its output is in the log. It is notified of the same commits again; the mirror does not wait for it. More time: hooks.timeout.',
  });
}

function interrupted({ reason }: AbortSignal): InterruptedError {
  return new InterruptedError('The command after commits was interrupted; it is notified again.', {
    cause: reason,
  });
}

export interface HookInput {
  /** The path of the mirror, or the address of the database without its password. */
  readonly mirror: string;
  /** The path of the published copy, which contains these commits; null: none is published. */
  readonly publishedCopy: string | null;
  /** In the order of the commits. */
  readonly commits: readonly HookCommit[];
  /** There are further commits, and their notification follows at once. */
  readonly hasMore: boolean;
}

interface HookCommit {
  /** The commit number: ascending, without gaps. */
  readonly commit: number;
  readonly dataset: string;
  readonly table: string;
  readonly kind: CommitRecord['kind'];
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly added: number | null;
  readonly changed: number | null;
  readonly removed: number | null;
  readonly rows: number | null;
  readonly appliedAt: string;
}

function hookCommit(record: CommitRecord): HookCommit {
  const { datasetId: dataset, tableName: table, kind, fromVersion, toVersion, net, rowCount: rows } = record;
  return {
    commit: record.commitNumber,
    dataset,
    table,
    kind,
    fromVersion,
    toVersion,
    added: net?.added ?? null,
    changed: net?.changed ?? null,
    removed: net?.removed ?? null,
    rows,
    appliedAt: record.appliedAt.toISOString(),
  };
}

/** The variables that contain a secret, and those through which a process reaches the service manager. */
const OURS = new Set([
  'FEED_SYNC_API_KEY',
  'FEED_SYNC_API_KEY_FILE',
  'FEED_SYNC_NOTIFY_URL',
  'FEED_SYNC_NOTIFY_URL_FILE',
  'FEED_SYNC_DESTINATION_URL',
  'FEED_SYNC_DESTINATION_URL_FILE',
  'CREDENTIALS_DIRECTORY',
  'NOTIFY_SOCKET',
  'WATCHDOG_PID',
  'WATCHDOG_USEC',
]);

/** Returns the environment of the command: it contains the API key under no name. */
export function hookEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  apiKey: Secret,
): Readonly<Record<string, string>> {
  const key = apiKey.reveal();
  const handedOn = Object.entries(environment).flatMap(([name, value]) =>
    value === undefined || OURS.has(name) || containsKey(value, key) ? [] : [[name, value] as const],
  );
  return Object.fromEntries(handedOn);
}

/** A short key also counts here, where leaving out one variable too many does little harm. */
function containsKey(value: string, key: string): boolean {
  return value.includes(key) || containsSecret(value, [key]);
}
