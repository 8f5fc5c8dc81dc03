/** What readers have built on the table feeds.parcels in PostgreSQL, and what they read through it. */

import pg from 'pg';
import { onTestFinished } from 'vitest';

/** Referred to by rows of readers, so that no version removes them. */
export const REFERRED = [1, 2, 3] as const;

const OBJECTS = [
  'CREATE VIEW public.names AS SELECT id, name FROM feeds.parcels',
  'CREATE MATERIALIZED VIEW public.known AS SELECT id, name FROM feeds.parcels',
  'GRANT SELECT ON feeds.parcels TO a_reader',
  'CREATE TABLE public.firm (id bigint PRIMARY KEY REFERENCES feeds.parcels (id))',
  'CREATE TABLE public.notes (id bigint PRIMARY KEY REFERENCES feeds.parcels (id) ON DELETE CASCADE)',
  'INSERT INTO public.firm VALUES (1), (2)',
  'INSERT INTO public.notes VALUES (2), (3)',
  `CREATE FUNCTION public.newest() RETURNS SETOF feeds.parcels LANGUAGE sql STABLE
    AS 'SELECT * FROM feeds.parcels'`,
];

const NO_OBJECTS = [
  'DROP VIEW public.names',
  'DROP MATERIALIZED VIEW public.known',
  'DROP TABLE public.firm, public.notes',
  'DROP FUNCTION public.newest()',
];

/** Where readers find the names: by their own objects, and in the table itself. */
export const WAYS = {
  view: 'SELECT id, name FROM public.names ORDER BY id',
  function: 'SELECT id, name FROM public.newest() ORDER BY id',
  table: 'SELECT id, name FROM feeds.parcels ORDER BY id',
} as const;

/** Ids and names, as one text. */
export type Names = string;

export const namesOf = (rows: readonly (readonly unknown[])[]): Names =>
  JSON.stringify(rows.map((row) => row.slice(0, 2).map(String)));

/** A session of a reader. Is closed when the test has finished. */
export class ReaderSession {
  readonly #client: pg.Client;
  #isPrepared = false;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  static async open(address: string): Promise<ReaderSession> {
    const client = new pg.Client({ connectionString: address });
    await client.connect();
    onTestFinished(() => client.end());
    return new ReaderSession(client);
  }

  async rows(sql: string): Promise<readonly (readonly unknown[])[]> {
    return (await this.#client.query<unknown[]>({ text: sql, rowMode: 'array' })).rows;
  }

  async names(sql: string): Promise<Names> {
    return namesOf(await this.rows(sql));
  }

  /** By a prepared `SELECT *`, which the server refuses once the table has other columns: it is prepared again then. */
  async preparedNames(): Promise<{ readonly names: Names; readonly isRefused: boolean }> {
    if (!this.#isPrepared) {
      await this.rows('PREPARE everything AS SELECT * FROM feeds.parcels ORDER BY id');
      this.#isPrepared = true;
    }
    try {
      return { names: await this.names('EXECUTE everything'), isRefused: false };
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || error.code !== '0A000') throw error;
      await this.forgetPrepared();
      return { names: (await this.preparedNames()).names, isRefused: true };
    }
  }

  async forgetPrepared(): Promise<void> {
    if (this.#isPrepared) await this.rows('DEALLOCATE everything');
    this.#isPrepared = false;
  }
}

export async function makeObjects(reader: ReaderSession): Promise<void> {
  for (const statement of OBJECTS) await reader.rows(statement);
}

export async function remakeObjects(reader: ReaderSession): Promise<void> {
  for (const statement of [...NO_OBJECTS, ...OBJECTS]) await reader.rows(statement);
}

/** Returns what is left of the objects: rows of readers, the grant, and the table in the publication. */
export async function objectsLeft(reader: ReaderSession): Promise<readonly unknown[]> {
  const [row = []] = await reader.rows(`SELECT (SELECT count(*)::int FROM public.firm),
    (SELECT count(*)::int FROM public.notes),
    (SELECT bool_and(has_table_privilege('a_reader', refobjid, 'SELECT')) FROM pg_depend
      WHERE objid = (SELECT oid FROM pg_rewrite WHERE ev_class = 'public.names'::regclass)
        AND refclassid = 'pg_class'::regclass AND refobjid <> 'public.names'::regclass),
    (SELECT count(*)::int FROM pg_constraint
      WHERE contype = 'f' AND conrelid IN ('public.firm'::regclass, 'public.notes'::regclass)),
    (SELECT count(*)::int FROM pg_publication_tables WHERE pubname = 'everything'
      AND (schemaname, tablename) = ('public', 'firm'))`);
  return row;
}

/** Tells whether a commit waits for the transactions of readers. */
export async function isCommitWaiting(reader: ReaderSession): Promise<boolean> {
  const [row = []] = await reader.rows(`SELECT count(*) > 0 FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'feed-sync' AND state = 'active'
      AND (wait_event_type = 'Lock' OR query LIKE 'SELECT pg_sleep(%')`);
  return row[0] === true;
}
