/**
 * Tables with a mixed past: changes and reloads, geometries, columns that come and that are replaced, retirements and returns, history
 * that is switched off for a while. As of every commit that a log covers the table is as that commit left it, where columns that
 * came later are null, and whatever the way, the table is the one that loads alone, without history, have left.
 */

import fc from 'fast-check';
import { describe, expect } from 'vitest';
import type { Cell, Content, Row } from '../../fixtures/source/content.ts';
import { difference } from '../../fixtures/source/diff.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import { present } from '../../src/lib/assert.ts';
import { type DestinationWorld, destinationKinds } from '../support/destination-kinds.ts';
import { type PublishedCourse, sourceSchema } from '../support/duckdb-changes.ts';
import { errorOf } from '../support/mirror-at-work.ts';
import { column, smallContent } from '../support/small-content.ts';
import { property } from './property.ts';

/** The rows as they are published next, with a value for every column that there may be. */
interface Published {
  readonly rows: readonly Row[];
  /** Whether changes lead there, where they can. */
  readonly byChanges: boolean;
}

type Step =
  | ({ readonly kind: 'rows' } & Published)
  /** One more column, behind the others. */
  | ({ readonly kind: 'column' } & Published)
  /** The text column gets another name: a breaking schema. */
  | ({ readonly kind: 'schema' } & Published)
  /** History is off while this is committed. */
  | ({ readonly kind: 'unlogged' } & Published)
  /** The dataset leaves, and comes back with these rows. */
  | ({ readonly kind: 'return'; readonly how: 'archive' | 'drop' | 'keep' } & Published);

const MOST_COLUMNS = 3;

const cell = (...values: readonly Cell[]) => fc.option(fc.constantFrom(...values), { nil: null, freq: 3 });
const row = fc.tuple(
  fc.integer({ min: 0, max: 7 }),
  cell('a', '', 'ä\u{1f600}'),
  cell(
    { type: 'Point', coordinates: [-97.7, 30.2] },
    { type: 'Point', coordinates: [1, 2, 3] },
    {
      type: 'LineString',
      coordinates: [
        [0, 0],
        [1, 1],
      ],
    },
  ),
  ...Array.from({ length: MOST_COLUMNS }, () => cell(1, -7, 2 ** 40)),
);
const published = fc.record({
  rows: fc.uniqueArray(row, { selector: ([id]) => id, maxLength: 7 }),
  byChanges: fc.boolean(),
});
const stepOf = (kind: 'rows' | 'column' | 'schema' | 'unlogged') =>
  published.map((next): Step => ({ kind, ...next }));
const steps = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: stepOf('rows') },
    { weight: 2, arbitrary: stepOf('column') },
    { weight: 1, arbitrary: stepOf('schema') },
    { weight: 1, arbitrary: stepOf('unlogged') },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.constantFrom('archive' as const, 'drop' as const, 'keep' as const), published)
        .map(([how, next]): Step => ({ kind: 'return', how, ...next })),
    },
  ),
  { minLength: 2, maxLength: 7 },
);

/** A table as it was, by the names of its columns. */
interface State {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | null)[])[];
}

/** The commits whose states a log covers. */
interface Covered {
  readonly log: string;
  readonly first: number;
  readonly last: number;
}

class Past {
  readonly #world: DestinationWorld;
  /** By number of commit. */
  readonly #left = new Map<number, State>();
  /** What is covered of the tables of before. */
  #frozen: Covered[] = [];
  /** The first commit that the log of the live table covers; null: there is no log. */
  #first: number | null = null;
  commits = 0;

  constructor(world: DestinationWorld) {
    this.#world = world;
  }

  /** Notes what a commit left. `before` is what the log of the table covers then, `isNew` whether it is another table now. */
  async note(columns: readonly string[], commit: { isLogged: boolean; isNew: boolean }): Promise<void> {
    const before = this.commits;
    this.commits += 1;
    if (commit.isNew) this.freeze();
    if (!commit.isLogged) this.#first = null;
    else this.#first ??= commit.isNew ? this.commits : before;
    this.#left.set(this.commits, await stateOf(this.#world, this.#world.table, columns));
  }

  /** Another table takes the place of the live one with the commit that was just counted. */
  freeze(): void {
    if (this.#first === null) return;
    this.#frozen.push({ log: `parcels__${this.commits}_log`, first: this.#first, last: this.commits - 1 });
    this.#first = null;
  }

  /** The table retires. */
  retired(how: 'archive' | 'drop' | 'keep'): void {
    this.commits += 1;
    if (how === 'drop') {
      this.#first = null;
      this.#frozen = [];
    } else {
      this.freeze();
    }
  }

  async expectKnown(): Promise<void> {
    const live = this.#first === null ? [] : [{ log: 'parcels', first: this.#first, last: this.commits }];
    for (const covered of [...this.#frozen, ...live]) await this.#expectCovered(covered);
  }

  async #expectCovered({ log, first, last }: Covered): Promise<void> {
    const { columns } = present(this.#left.get(last), 'the last commit of a log left a table');
    const asOf = (commit: number) =>
      stateOf(this.#world, `${this.#world.historic(`${log}_as_of_commit`)}(${commit})`, columns);
    for (let commit = first; commit <= last; commit += 1) {
      const then = this.#left.get(commit);
      if (then === undefined) continue;
      expect(await asOf(commit), `${log} as of commit ${commit}`).toEqual(widened(then, columns));
    }
    await expect(asOf(first - 1)).rejects.toThrow();
  }

  /** Undoes everything that the log of the live table covers, with the columns that came since. */
  async undoAll(): Promise<void> {
    const first = this.#first;
    if (first === null || first === this.commits) return;
    const then = present(this.#left.get(first), 'the first commit of a log left a table');
    const plannedFrom = await this.#world.observed();
    const fetched = { bytes: 0, elapsedMs: () => 0 };
    const job = { kind: 'rollback', datasetId: 'parcels', toCommit: first, version: 1, fetched } as const;
    const [result] = await this.#world.execute({ ...job, plannedFrom });
    if (result?.kind === 'failed' && !result.error.message.includes('there is nothing to roll back'))
      throw result.error;
    expect(await stateOf(this.#world, this.#world.table, then.columns)).toEqual(then);
  }
}

/** The values as texts: in DuckDB geometries are WKT then, in PostgreSQL their bytes. */
async function stateOf(world: DestinationWorld, source: string, columns: readonly string[]): Promise<State> {
  const cells = columns.map((name) => `CAST("${name}" AS VARCHAR) AS "${name}"`);
  const reader = await world.reader();
  try {
    const { rows } = await reader.query(`SELECT ${cells.join(', ')} FROM ${source} ORDER BY 1`);
    const read: (string | null)[][] = [];
    for await (const found of rows) read.push(found.map((value) => (value === null ? null : String(value))));
    return { columns, rows: read };
  } finally {
    await reader.close();
  }
}

function widened({ columns, rows }: State, now: readonly string[]): State {
  const places = now.map((name) => columns.indexOf(name));
  return { columns: now, rows: rows.map((cells) => places.map((place) => cells[place] ?? null)) };
}

/** What the service publishes: which columns there are, and the rows. */
class Publisher {
  #schemas = 1;
  #names = 1;
  #further = 0;
  #rows: readonly Row[] = [];

  get columns(): readonly string[] {
    const further = Array.from({ length: this.#further }, (_, index) => `further_${index}`);
    return ['id', `text_${this.#names}`, 'place', ...further];
  }

  /** Null changes: none lead there. */
  next(kind: Step['kind'], rows: readonly Row[]): Content {
    const before = this.#rows;
    if (kind === 'column' && this.#further < MOST_COLUMNS) {
      this.#further += 1;
      this.#schemas += 1;
    }
    if (kind === 'schema') {
      this.#names += 1;
      this.#schemas += 1;
    }
    const [, text = '', , ...further] = this.columns;
    const schema = sourceSchema(
      [
        column('id', 'integer', false),
        column(text, 'string'),
        column('place', 'geometry'),
        ...further.map((name) => column(name, 'integer')),
      ],
      { schemaVersion: String(this.#schemas) },
    );
    const cut = (all: Row): Row => all.slice(0, this.columns.length);
    // A column that was added is null in the rows of before.
    this.#rows = rows.map(cut);
    const wide = before.map((cells): Row => this.columns.map((_, place) => cells[place] ?? null));
    const hasChanges = kind !== 'schema' && kind !== 'return';
    return smallContent(this.#rows, hasChanges ? difference(schema, wide, this.#rows) : null, schema);
  }
}

function committed(result: JobResult): void {
  if (result.kind !== 'committed') throw errorOf(result);
}

/** Changes where they lead on, else the snapshot: as where the first geometry of a table comes by a change. */
async function commit(world: DestinationWorld, course: PublishedCourse, byChanges: boolean): Promise<void> {
  const result = byChanges ? await world.apply(course) : null;
  if (result?.kind !== 'committed') committed(await world.load(course));
}

interface Worlds {
  readonly kept: DestinationWorld;
  /** Without history, and by snapshots alone. */
  readonly loaded: DestinationWorld;
  switchHistory(isOn: boolean): void;
}

async function play(
  { kept, loaded, switchHistory }: Worlds,
  first: readonly Row[],
  all: readonly Step[],
): Promise<void> {
  const publisher = new Publisher();
  const past = new Past(kept);
  const begin = publisher.next('return', first);
  const courses = [kept, loaded].map((world) => world.published(begin));
  const [course, plain] = courses;
  if (course === undefined || plain === undefined) throw new Error('there are two courses');
  committed(await kept.load(course));
  committed(await loaded.load(plain));
  await past.note(publisher.columns, { isLogged: true, isNew: true });
  for (const { kind, rows, byChanges, ...step } of all) {
    if ('how' in step) {
      const results = [await kept.retire(course, step.how), await loaded.retire(plain, step.how)];
      expect(results).toMatchObject([{ kind: 'retired' }, { kind: 'retired' }]);
      past.retired(step.how);
    }
    const content = publisher.next(kind, rows);
    for (const each of courses) each.publish(content);
    switchHistory(kind !== 'unlogged');
    await commit(kept, course, byChanges && content.changes !== null);
    switchHistory(true);
    committed(await loaded.load(plain));
    expect(await kept.rows()).toEqual(await loaded.rows());
    const isNew = kind === 'schema' || kind === 'return';
    await past.note(publisher.columns, { isLogged: kind !== 'unlogged', isNew });
  }
  await past.expectKnown();
  await past.undoAll();
}

describe.each(destinationKinds())('the past of tables in $name', (kind) => {
  property(
    'F69 F70 F71 shows a table as of every commit that its undo log covers, and keeps it equal to one without history',
    kind.name === 'DuckDB' ? 6 : 3,
    fc.asyncProperty(published, steps, async ({ rows: first }, all) => {
      let isOn = true;
      const kept = await kind.open({ keeps: () => isOn, keepMs: Number.POSITIVE_INFINITY });
      const loaded = await kind.open();
      const switchHistory = (on: boolean): void => {
        isOn = on;
      };
      await play({ kept, loaded, switchHistory }, first, all);
    }),
  );
});
