/**
 * `feed-sync compact`: rewrites the mirror without free space, and with `--compress` also with texts and geometries compressed. It
 * takes the instance lock, like `once`, because nothing else may work on the data directory meanwhile.
 */

import type { LocalConfiguration } from '../../configuration/configuration.ts';
import { type Compaction, compactMirror } from '../../destination/duckdb/copies/compact.ts';
import type { CopyProgress } from '../../destination/duckdb/copy-content.ts';
import { mirrorFileState } from '../../destination/duckdb/mirror-file.ts';
import { printable } from '../../lib/text.ts';
import { formatBytes, formatCount, plural } from '../../lib/units.ts';
import { refuseWithPostgres } from '../../reporting/stores.ts';
import { type Context, write } from '../context.ts';
import { lockDataDirectory } from '../data-directory.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { jsonText } from '../render/formats.ts';
import { cut, logFor, Redrawing, screenFor } from '../render/screen.ts';

export interface CompactFlags {
  /** Whether texts and geometries are written compressed. */
  readonly compress?: boolean;
  readonly json?: boolean;
}

/**
 * Rewrites the mirror without free space. @throws BusyError where another instance works here, or a reader keeps the mirror locked for
 * longer than `lock.wait`.
 * @throws StorageError, ConfigurationError, InterruptedError; the mirror is unchanged then.
 */
export async function compact(
  configuration: LocalConfiguration,
  context: Context,
  { compress: compresses = false, json = false }: CompactFlags,
): Promise<ExitCode> {
  const { clock, random, signal, identity, terminal } = context;
  const { dataDirectory, destination, disk, duckdb, lock: locking } = configuration;
  refuseWithPostgres('compact', configuration);
  // Without a mirror no data directory is made, either.
  if ((await mirrorFileState(destination.path)) === 'absent') {
    await write(terminal.stdout, textOf(destination.path, { kind: 'absent' }, json));
    return EXIT_CODES.caughtUp;
  }
  const lock = await lockDataDirectory(configuration, context, 'compact');
  let progress: CopyProgress | null = null;
  const screen = screenFor(configuration, terminal, clock);
  const draw = (): void => {
    if (progress !== null) screen?.draw([progressLine(progress, terminal.width)]);
  };
  const view = screen === null ? null : new Redrawing(screen, clock, draw);
  try {
    const compaction = await compactMirror({
      path: destination.path,
      compresses,
      dataDirectory,
      ...duckdb,
      lockWaitMs: locking.waitMs,
      log: logFor(configuration, terminal, screen),
      reserveBytes: disk.reserveBytes,
      uid: identity.uid,
      clock,
      random,
      signal,
      onProgress(now) {
        progress = now;
      },
    }).finally(() => view?.end());
    await write(terminal.stdout, textOf(destination.path, compaction, json));
    return EXIT_CODES.caughtUp;
  } finally {
    lock.release();
  }
}

function textOf(mirror: string, compaction: Compaction, json: boolean): string {
  const reported = compactionOf(mirror, compaction);
  return json ? jsonText(reported) : `${formatCompaction(reported)}\n`;
}

const PHASES: Readonly<Record<CopyProgress['phase'], string>> = { copying: 'Copying', proving: 'Comparing' };

function formatCompaction({ mirror, isCompressed, bytesBefore, bytesAfter, tables }: CompactionView): string {
  if (bytesBefore === null || bytesAfter === null) {
    return `There is no mirror yet at ${mirror}, and nothing to compact.`;
  }
  const sizes = `${formatBytes(bytesBefore)} before, ${formatBytes(bytesAfter)} now`;
  const how = isCompressed ? 'compacted, and its texts and geometries are compressed' : 'compacted';
  return `The mirror ${mirror} is ${how}: ${sizes}. ${compared(tables ?? 0)}`;
}

function compared(tables: number): string {
  return tables === 1 ? 'Its table was compared.' : `All ${plural(tables, 'table')} were compared.`;
}

/** Returns one line of a screen. */
export function progressLine({ phase, table, done, tables, share }: CopyProgress, width: number): string {
  const percent = `${Math.floor(share() * 100)} %`;
  const of = `table ${formatCount(done + 1)} of ${formatCount(tables)}`;
  // With a character in the last column some terminals would start another line.
  return cut(`${PHASES[phase]}: ${percent}, ${of}, ${printable(table)}`, Math.max(1, width - 1));
}

/** The JSON; `cli/outputs.md` documents its fields. */
export type CompactionView = ReturnType<typeof compactionOf>;

function compactionOf(mirror: string, compaction: Compaction) {
  if (compaction.kind === 'absent') {
    return {
      mirror,
      result: 'absent',
      isCompressed: null,
      bytesBefore: null,
      bytesAfter: null,
      tables: null,
    };
  }
  const { isCompressed, bytesBefore, bytesAfter, tables } = compaction;
  return { mirror, result: 'compacted', isCompressed, bytesBefore, bytesAfter, tables };
}
