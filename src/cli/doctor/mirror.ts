/** Checks the mirror, opened read-only for a short time after a short wait. */

import { type InstanceHolder, instanceLockPath, readInstanceLock } from '../../checkpoint/instance-lock.ts';
import type { ObservedState } from '../../destination/destination.ts';
import { formatBytes } from '../../lib/units.ts';
import { BusyError } from '../../model/errors.ts';
import {
  type FileLock,
  isWorthCompacting,
  type MirrorSize,
  mirrorBytes,
  mirrorLocks,
} from '../../reporting/mirror-file.ts';
import { readMirror } from '../../reporting/stores.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { formatTime, formatTimeFrom } from '../render/messages.ts';
import {
  type Check,
  type Checked,
  type CheckInput,
  counted,
  type Facts,
  type Finding,
  ok,
  problem,
  skipped,
  troubleOf,
  warning,
} from './check.ts';
import { quarantineFindings } from './checkpoint.ts';
import { besides, seeFile } from './places.ts';

const MIRROR_LIMIT_MS = 30_000;
/** Longer than a commit of a running instance takes. */
const MAX_WAIT_MS = 3_000;

export const mirrorCheck: Check = { name: 'mirror', limitMs: MIRROR_LIMIT_MS, run: checkMirror };

async function checkMirror(checkInput: CheckInput, facts: Facts, signal: AbortSignal): Promise<Checked> {
  const path = checkInput.inspection.known('destination.path');
  if (path === null) return { findings: [skipped('file', 'destination.path is not known.')] };
  const quarantined = quarantineFindings('mirror', await besides(path, '.corrupt-'));
  try {
    const mirror = await readMirror(readerOptions(path, checkInput, signal));
    if (mirror === null)
      return { findings: [ok('file', `none yet at ${path}: feed-sync once makes it`), ...quarantined] };
    const { freeBytes, format } = mirror;
    const file = { path, bytes: mirrorBytes(path), freeBytes, format };
    const findings = judgeMirror(file, mirror, checkInput.inspection.known('service.baseUrl'));
    const copy = await copyFindings(checkInput);
    return { findings: [...findings, ...copy, ...quarantined], facts: { mirror } };
  } catch (error) {
    return { findings: [cannotBeRead(error, facts), ...quarantined] };
  }
}

/** A wrong setting does not prevent reading the mirror. */
function readerOptions(path: string, { inspection, context }: CheckInput, signal: AbortSignal) {
  const { clock, random } = context;
  const memoryLimitBytes = inspection.known('duckdb.memoryLimit') ?? 0;
  const threads = inspection.known('duckdb.threads') ?? 1;
  const waitMs = Math.min(inspection.known('lock.wait') ?? 0, MAX_WAIT_MS);
  return { path, waitMs, memoryLimitBytes, threads, clock, random, signal };
}

/** No findings where publishing is off. */
async function copyFindings({ inspection, context }: CheckInput): Promise<readonly Finding[]> {
  const path = inspection.known('destination.publish') ?? null;
  if (path === null) return [];
  const copy = await seeFile(path);
  if (copy === null) {
    return [
      warning('published copy', `none yet at ${path} (destination.publish)`, 'Make it: feed-sync once'),
    ];
  }
  const at = formatTimeFrom(context.clock.now(), copy.changedAt.toISOString());
  return [ok('published copy', `${path} (${formatBytes(copy.bytes)}), published at ${at}`)];
}

interface MirrorFile extends MirrorSize {
  readonly path: string;
  /** Null where nothing was written yet. */
  readonly format: number | null;
}

/** Returns the findings about a readable mirror. Pure. */
export function judgeMirror(
  file: MirrorFile,
  { service, datasets }: ObservedState,
  baseUrl: string | null,
): readonly Finding[] {
  const { path, bytes, format } = file;
  const rows = [...datasets.values()].reduce((sum, { rowCount }) => sum + rowCount, 0);
  const origin = baseUrl === null ? null : new URL(baseUrl).origin;
  const isForeign = service !== null && origin !== null && service.origin !== origin;
  return [
    ok(
      'file',
      `${path} (${formatBytes(bytes)}, ${format === null ? 'empty' : `format ${format}`}), readable`,
    ),
    ...spaceFindings(file),
    ok('content', `${counted(datasets.size, 'table')}, ${counted(rows, 'row')}`),
    ...(isForeign
      ? [
          problem(
            'service',
            `The mirror belongs to the service at ${service.origin}, not to ${origin}.`,
            EXIT_CODES.wrongConfiguration,
            'If the service has moved there: feed-sync resume --service-moved',
            'Give this configuration a data directory of its own (dataDir), or correct service.baseUrl.',
          ),
        ]
      : []),
  ];
}

function spaceFindings(size: MirrorSize): readonly Finding[] {
  if (!isWorthCompacting(size)) return [];
  const found = `${formatBytes(size.freeBytes ?? 0)} of the file are unused.`;
  return [warning('space', found, 'To give them back, while no instance is running: feed-sync compact')];
}

/** A commit of the running instance is no problem; another process that has locked the file is. */
function cannotBeRead(error: unknown, { runningInstance }: Facts): Finding {
  if (!(error instanceof BusyError) || runningInstance === null) return troubleOf('file', error);
  return warning(
    'file',
    `${error.message} An instance is running: it may be loading a large dataset.`,
    'Try again in a moment.',
  );
}

const LOCKS_LIMIT_MS = 5_000;

export const locksCheck: Check = { name: 'locks', limitMs: LOCKS_LIMIT_MS, run: checkLocks };

function checkLocks({ inspection, context }: CheckInput): Checked {
  const dataDirectory = inspection.known('dataDir');
  const path = inspection.known('destination.path');
  const instance =
    dataDirectory === null
      ? { finding: skipped('instance', 'dataDir is not known.'), holder: null }
      : instanceFinding(instanceLockPath(dataDirectory), context.identity.uid);
  const locks = path === null ? [] : mirrorLocks(path, context.readFile);
  const ofOthers = locks.filter(({ pid }) => pid !== context.identity.pid);
  const nameOf = (pid: number): string | null => processName(pid, context.readFile);
  return {
    findings: [
      instance.finding,
      path === null
        ? skipped('mirror', 'destination.path is not known.')
        : judgeMirrorLocks(ofOthers, instance.holder, nameOf),
    ],
    facts: { runningInstance: instance.holder },
  };
}

function instanceFinding(
  path: string,
  uid: number | null,
): { readonly finding: Finding; readonly holder: InstanceHolder | null } {
  const about = 'instance';
  try {
    const { isLocked, holder } = readInstanceLock({ path, uid });
    if (!isLocked) return { finding: ok(about, 'none is running here'), holder: null };
    if (holder === null) return { finding: ok(about, 'one is just starting'), holder };
    const { pid, host, command, startedAt } = holder;
    const found = `process ${pid} on ${host} runs \`${command}\` since ${formatTime(startedAt.toISOString())}`;
    return { finding: ok(about, found), holder };
  } catch (error) {
    return { finding: troubleOf(about, error), holder: null };
  }
}

/** Returns the findings about the locks that other processes have on the mirror. Pure but for `nameOf`. */
export function judgeMirrorLocks(
  locks: readonly FileLock[],
  instance: InstanceHolder | null,
  nameOf: (pid: number) => string | null,
): Finding {
  const about = 'mirror';
  const foreign = locks.filter(({ pid }) => pid !== instance?.pid);
  if (locks.length === 0) return ok(about, 'nobody is seen to hold it');
  if (foreign.length === 0) return ok(about, 'held by the running instance, which is committing');
  const named = foreign.map(({ pid, mode }) => {
    const name = nameOf(pid);
    return `process ${pid}${name === null ? '' : ` (${name})`} ${mode} it`;
  });
  const wait = 'A commit waits for it up to lock.wait.';
  const hint = 'End it, or let it open the mirror read-only and for short moments.';
  return foreign.some(({ mode }) => mode === 'writes')
    ? problem(about, `${named.join(', ')}. ${wait}`, EXIT_CODES.tryAgainLater, hint)
    : warning(about, `${named.join(', ')}. ${wait}`, hint);
}

function processName(pid: number, readFile: CheckInput['context']['readFile']): string | null {
  try {
    return readFile(`/proc/${pid}/comm`).trim();
  } catch {
    return null;
  }
}
