/**
 * `feed-sync status`: reports the desired and the observed state, and the obstacles between them. `--watch` shows the report
 * until it is stopped, `--check` judges it for monitors. Works beside a running instance.
 */

import { statSync } from 'node:fs';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import { printable } from '../../lib/text.ts';
import { formatDuration, plural } from '../../lib/units.ts';
import { ERRORS } from '../../model/error-codes.ts';
import { BusyError, UsageError } from '../../model/errors.ts';
import { type Status, statusJson, statusOf } from '../../reporting/status.ts';
import { type MirrorSeen, readCheckpoint, seeMirror } from '../../reporting/stores.ts';
import { type Context, write } from '../context.ts';
import { runningInstance } from '../data-directory.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf, mostUrgent } from '../exit-codes.ts';
import { jsonText } from '../render/formats.ts';
import { formatTimeFrom } from '../render/messages.ts';
import { cut, Screen } from '../render/screen.ts';
import { renderStatus } from '../render/status.ts';

export interface StatusOptions {
  readonly json: boolean;
  /** Null: the report is not judged. */
  readonly check: { readonly maxAgeMs: number | null } | null;
  readonly watches: boolean;
}

/** Reports the status. @throws FeedSyncError when the checkpoint cannot be read. */
export async function reportStatus(
  configuration: LocalConfiguration,
  context: Context,
  { json, check, watches }: StatusOptions,
): Promise<ExitCode> {
  if (watches) return watchStatus(configuration, context);
  const { clock, terminal } = context;
  const { stdout, width } = terminal;
  const status = statusNow(configuration, context, await seeMirror(configuration, context));
  const now = clock.now();
  const findings = check === null ? findingsOfMirror(status) : judgeStatus(status, check.maxAgeMs, now);
  const code = mostUrgent(findings.map(({ exitCode }) => exitCode));
  if (json) await write(stdout, jsonText(statusJson(status)));
  else await write(stdout, `${check === null ? renderStatus(status, { now, width }) : verdict(findings)}\n`);
  return code;
}

function statusNow(configuration: LocalConfiguration, context: Context, mirror: MirrorSeen): Status {
  const { identity, readFile } = context;
  return statusOf(configuration, {
    mirror,
    runningInstance: runningInstance(configuration, context),
    checkpoint: readCheckpoint(configuration, identity.uid),
    pid: identity.pid,
    readFile,
  });
}

interface StatusFinding {
  readonly exitCode: ExitCode;
  /** A sentence. */
  readonly found: string;
}

function findingsOfMirror({ mirror }: Status): readonly StatusFinding[] {
  if (!(mirror instanceof Error) || mirror instanceof BusyError) return [];
  return [{ exitCode: exitCodeOf(mirror), found: mirror.message }];
}

/** Returns what a monitor is to report, the exit codes included. Null: the age of the data is not judged. Pure. */
export function judgeStatus(status: Status, maxAgeMs: number | null, now: Date): readonly StatusFinding[] {
  const { service, suspensions, datasets, hook } = status;
  const { dataAsOf, outages } = service;
  const all = [...datasets.values()];
  const failed = all.flatMap(({ failure, isChosen }) => (isChosen ? (failure ?? []) : []));
  const unapproved = all.filter(({ retirement }) => retirement?.waitsForApproval === true);
  const waiting = suspensions.all.length + (suspensions.retirement === null ? unapproved.length : 0);
  const isOld = maxAgeMs !== null && (dataAsOf === null || now.getTime() - dataAsOf.getTime() > maxAgeMs);
  const later = EXIT_CODES.tryAgainLater;
  return [
    ...findingsOfMirror(status),
    ...(waiting === 0 ? [] : [{ exitCode: EXIT_CODES.operatorMustAct, found: waitingSentence(waiting) }]),
    ...(isOld ? [{ exitCode: later, found: ageSentence(dataAsOf, maxAgeMs, now) }] : []),
    ...outages.map(({ since, message }) => ({
      exitCode: later,
      found: `The service has given no usable answer since ${formatTimeFrom(now, since)}: ${message}`,
    })),
    ...(service.reached === null ? [{ exitCode: later, found: 'No catch-up has reached the service.' }] : []),
    ...[...Map.groupBy(failed, ({ error }) => error)].map(([error, of]) => ({
      exitCode: ERRORS[error].exitCode,
      found: `${plural(of.length, 'dataset')} failed: ${error}.`,
    })),
    ...(hook?.failure == null ? [] : [{ exitCode: later, found: 'The command after commits failed.' }]),
  ];
}

function waitingSentence(waiting: number): string {
  return `${plural(waiting, 'thing')} ${waiting === 1 ? 'waits' : 'wait'} for an operator.`;
}

function ageSentence(dataAsOf: Date | null, maxAgeMs: number, now: Date): string {
  if (dataAsOf === null) return 'The age of the data is not known.';
  return `The data is as of ${formatTimeFrom(now, dataAsOf)}, older than ${formatDuration(maxAgeMs)}.`;
}

/** Monitors show the first line. */
function verdict(findings: readonly StatusFinding[]): string {
  if (findings.length === 0) return 'OK';
  const lines = findings.map(({ exitCode, found }) => `${exitCode}: ${found.split('\n').join(' ')}`);
  return [...lines.map(printable), '→ feed-sync status'].join('\n');
}

const LOOK_EVERY_MS = 2_000;

/** Shows the report until the process is asked to stop; the last one stays on the screen. @throws UsageError without a screen. */
async function watchStatus(configuration: LocalConfiguration, context: Context): Promise<ExitCode> {
  const { terminal, clock, signal } = context;
  const height = terminal.height;
  if (height === null) {
    throw new UsageError('--watch needs a terminal.', { hint: 'For programs: feed-sync status --json' });
  }
  const screen = new Screen(terminal, clock);
  const mirrors = new MirrorWatch(configuration, context);
  let text = '';
  while (!signal.aborted) {
    const status = statusNow(configuration, context, await mirrors.read());
    const { width } = terminal;
    text = renderStatus(status, { now: clock.now(), width });
    screen.draw(fitted(text.split('\n'), width, terminal.height ?? height));
    await clock.sleep(LOOK_EVERY_MS, signal).catch(() => {});
  }
  screen.clear();
  await write(terminal.stdout, `${text}\n`);
  return EXIT_CODES.caughtUp;
}

/** The last lines have the counts and what to do, so the middle is left out. */
function fitted(lines: readonly string[], width: number, height: number): readonly string[] {
  const room = Math.max(2, height - 1);
  if (lines.length <= room) return lines.map((line) => cut(line, width));
  const end = Math.min(lines.length, Math.floor(room / 3));
  const hidden = `… ${plural(lines.length - room + 1, 'line')} more: feed-sync status`;
  return [...lines.slice(0, room - end - 1), hidden, ...lines.slice(lines.length - end)].map((line) =>
    cut(line, width),
  );
}

/** Opens a file only after it has changed: a commit waits for whoever reads it. A database is read each time. */
class MirrorWatch {
  readonly #configuration: LocalConfiguration;
  readonly #context: Context;
  #seen: { readonly mark: string | null; readonly mirror: MirrorSeen } | null = null;

  constructor(configuration: LocalConfiguration, context: Context) {
    this.#configuration = configuration;
    this.#context = context;
  }

  async read(): Promise<MirrorSeen> {
    const { path, postgres } = this.#configuration.destination;
    const mark = postgres === null ? markOf(path) : null;
    if (mark !== null && this.#seen?.mark === mark && !(this.#seen.mirror instanceof Error))
      return this.#seen.mirror;
    const mirror = await seeMirror(this.#configuration, this.#context);
    this.#seen = { mark, mirror };
    return mirror;
  }
}

function markOf(path: string): string {
  const seen = [path, `${path}.wal`].map((file) => statSync(file, { throwIfNoEntry: false }));
  return seen.map((stat) => (stat === undefined ? 'none' : `${stat.mtimeMs} ${stat.size}`)).join(', ');
}
