/** The mirror in a new file with its texts and geometries compressed (`compact --compress`): what it keeps, and what commits do to it. */

import { statSync } from 'node:fs';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { observeDurableEffects } from '../../src/lib/files.ts';
import { StorageError } from '../../src/model/errors.ts';
import { compactAt } from '../support/compacting.ts';
import { PLOT, refusedAt, workedOnMirror } from '../support/compacting-world.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { duckdb } from '../support/duckdb-mirror.ts';
import { type MirrorAtWork, mirrorAtWork } from '../support/mirror-at-work.ts';
import { column } from '../support/small-content.ts';

/** The free bytes of every disk; null for those that there are. */
let free: number | null = null;
vi.mock('../../src/lib/files.ts', async (original) => {
  const real = await original<typeof import('../../src/lib/files.ts')>();
  return { ...real, freeBytes: async (path: string) => free ?? (await real.freeBytes(path)) };
});

const PLACES = sourceSchema([
  column('id', 'integer', false),
  column('address', 'string'),
  column('shape', 'geometry'),
]);
/** DuckDB compresses no text of a table of 2,048 rows or fewer. */
const ROWS = 4_000;
/** Much more than the blocks in which a file grows. */
const MUCH = `CREATE TABLE notes AS SELECT i AS id, 'The assessor of the county ' || hash(i) || ' visited the parcel '
    || hash(i + 1) || ' and found the fence of its northern meadow in good order' AS note,
    ('LINESTRING(' || i || ' 1, 2 3, 4 5, ' || i + 1 || ' 7, 8 9)')::GEOMETRY AS fence
  FROM range(30_000) r(i)`;
const HISTORY = { keeps: () => true, keepMs: Number.POSITIVE_INFINITY };

/** A row with a text that no other row has. */
function place(id: number, street = 'North Meadow Street'): Row {
  return [id, `${(id * 7_919) % 10_007} ${street}, Cedarville, Unit ${id}`, PLOT];
}

/** A mirror with history of a large table, changed since it was loaded, and of one that is archived. */
async function mirrorOfPlaces() {
  const made = await mirrorAtWork({ history: HISTORY });
  const rows = Array.from({ length: ROWS }, (_, id) => place(id));
  const course = await made.loaded(firstContent(PLACES, rows));
  const changed = [...rows.slice(100), place(ROWS), place(ROWS + 1)];
  course.publishRows(changed);
  expect(await made.apply(course)).toMatchObject({ kind: 'committed' });
  await made.retire(await made.loaded(firstContent(PLACES, rows.slice(0, 50)), 'old'), 'archive');
  return { made, course, changed };
}

/** The columns of `tables` with compressed values. */
async function compressedColumns({ path }: MirrorAtWork, ...tables: readonly string[]): Promise<unknown> {
  const selects = tables.map(
    (table) => `SELECT column_name FROM pragma_storage_info('m.${table}') WHERE compression = 'FSST'`,
  );
  const all = `SELECT DISTINCT column_name FROM (${selects.join(' UNION ALL ')})
    WHERE column_name IN ('address', 'note', 'fence') ORDER BY ALL`;
  return (await duckdb(`ATTACH '${path}' AS m (READ_ONLY)`, all)).map(([name]) => name);
}

async function evidence(made: MirrorAtWork): Promise<unknown> {
  const earlier = 'SELECT count(*), sum(hash(p))::VARCHAR FROM history.parcels_as_of_commit(1) p';
  return {
    dump: await made.dump(),
    commits: await made.mirror.commits(null, { limit: 99, upTo: null }),
    firstState: await duckdb(`ATTACH '${made.path}' AS m (READ_ONLY)`, 'USE m', earlier),
    comments: await duckdb(
      `ATTACH '${made.path}' AS m (READ_ONLY)`,
      "SELECT table_name, comment FROM duckdb_tables() WHERE database_name = 'm' ORDER BY ALL",
    ),
  };
}

describe('a compressed mirror', () => {
  it('is smaller and has the same tables, history, archive and catalog, and compact without --compress undoes it', async () => {
    const { made } = await mirrorOfPlaces();
    await made.byHand(MUCH);
    const before = await evidence(made);
    await compactAt(made.path);
    const plain = statSync(made.path).size;
    expect(await compressedColumns(made, 'parcels', 'notes')).toEqual([]);
    expect(await compactAt(made.path, { compresses: true })).toMatchObject({
      kind: 'compacted',
      isCompressed: true,
      bytesBefore: plain,
      bytesAfter: statSync(made.path).size,
    });
    expect(statSync(made.path).size / plain).toBeLessThan(0.8);
    expect(await compressedColumns(made, 'parcels', 'notes')).toEqual(['address', 'fence', 'note']);
    expect(await evidence(made)).toEqual(before);
    expect(await compactAt(made.path)).toMatchObject({ isCompressed: false });
    expect(statSync(made.path).size / plain).toBeCloseTo(1, 1);
    expect(await compressedColumns(made, 'parcels', 'notes')).toEqual([]);
    expect(await evidence(made)).toEqual(before);
  });

  it('takes changes behind its compressed rows, and a reload writes its table without compression', async () => {
    const { made, course, changed } = await mirrorOfPlaces();
    await compactAt(made.path, { compresses: true });
    course.publishRows([...changed.slice(0, -3), place(ROWS, 'South Meadow Street'), place(ROWS + 5)]);
    expect(await made.apply(course)).toMatchObject({ kind: 'committed' });
    expect(await made.differences(course)).toEqual([]);
    expect(await compressedColumns(made, 'parcels')).toEqual(['address']);
    course.publish(
      firstContent(
        PLACES,
        Array.from({ length: ROWS }, (_, id) => place(id, 'East Street')),
      ),
    );
    expect(await made.load(course)).toMatchObject({ kind: 'committed' });
    expect(await made.differences(course)).toEqual([]);
    const [[first] = []] = await duckdb(
      `ATTACH '${made.path}' AS m (READ_ONLY)`,
      'USE m',
      'SELECT count(*)::INTEGER FROM history.parcels_as_of_commit(1)',
    );
    expect(first).toBe(ROWS);
    expect(await compressedColumns(made, 'parcels')).toEqual([]);
  });

  it('F07 stays as it is where the new file, which is larger without compression, would take the reserve', async () => {
    const made = await workedOnMirror();
    await made.byHand('CREATE TABLE much AS SELECT hash(i) AS h FROM range(3_000_000) r(i)');
    await compactAt(made.path, { compresses: true });
    onTestFinished(() => {
      free = null;
      observeDurableEffects(() => {});
    });
    observeDurableEffects((name) => {
      if (name === 'destination.compact-no-log') free = 1_000;
    });
    const clock = {
      ...systemClock,
      sleep: (_: number, signal?: AbortSignal) => systemClock.sleep(1, signal),
    };
    const error = await refusedAt(made, { clock, reserveBytes: 2_000 });
    expect(error).toBeInstanceOf(StorageError);
    expect(error).toMatchObject({ code: 'disk_full', hint: 'Free some space. The mirror is unchanged.' });
    expect(error.message).toMatch(
      /^Not enough space in \/\S+ \(1\.0 KB free\): the new mirror needs more than is free beyond disk\.reserve\.$/,
    );
  });
});
