/** The states of tables with history as they were seen, to be compared with what their undo logs say of them later. */

import { type ExactMirror, identifier } from './exact-mirror.ts';

/** The states of one table that are compared at a time, the newest. */
const MAX_COMPARED = 6;

/** Where the undo logs are asked. */
export interface PastSource {
  /** Of each live undo log: dataset id, name, first commit that it knows, newest commit, columns, checksum of the rows of now. */
  live(): Promise<readonly (readonly (string | null)[])[]>;
  /** The checksum of the rows that the log says the table had after the commit. */
  checksumAsOf(logName: string, commit: string): Promise<string | null>;
}

interface State {
  readonly commit: string;
  readonly columns: string;
  readonly checksum: string;
}

export class PastStates {
  readonly #states = new Map<string, State[]>();

  /** Another mirror has other commits under the same numbers. */
  forget(): void {
    this.#states.clear();
  }

  /**
   * Notes the states of now. Returns in words how the earlier ones differ from what the logs say of them. Of tables that were
   * altered by hand since they were verified, neither is known.
   */
  async compare(source: PastSource, altered: ReadonlySet<string>): Promise<readonly string[]> {
    const differences: string[] = [];
    for (const row of await source.live()) {
      const [datasetId = '', logName = '', first = '', commit = '', columns = '', checksum = ''] = row.map(
        (text) => text ?? '',
      );
      if (altered.has(datasetId)) continue;
      const now = { commit, columns, checksum };
      const states = [...(this.#states.get(datasetId) ?? []), now].slice(-MAX_COMPARED);
      this.#states.set(datasetId, states);
      const known = states.filter(
        (state) => state.columns === columns && Number(state.commit) >= Number(first),
      );
      for (const wrong of await wrongAmong(known, logName, source)) differences.push(`${datasetId} ${wrong}`);
    }
    return differences;
  }
}

async function wrongAmong(
  states: readonly State[],
  logName: string,
  source: PastSource,
): Promise<readonly string[]> {
  const wrong: string[] = [];
  for (const { commit, checksum } of states) {
    if ((await source.checksumAsOf(logName, commit)) !== checksum)
      wrong.push(`as of commit ${commit} is not what it was after it`);
  }
  return wrong;
}

/** The undo logs of a file. */
export function pastOf(mirror: ExactMirror): PastSource {
  return {
    async live() {
      const [hasLogs] = await mirror.rows(
        "SELECT 1::VARCHAR FROM duckdb_tables() WHERE schema_name = 'feed_sync' AND table_name = 'history_logs'",
      );
      return hasLogs === undefined ? [] : await mirror.rows(LIVE_LOGS);
    },
    async checksumAsOf(logName, commit) {
      const [row] = await mirror.rows(`SELECT coalesce(sum(hash(hash(*COLUMNS(*)))), 0)::HUGEINT::VARCHAR
        FROM history.${identifier(`${logName}_as_of_commit`)}(${commit})`);
      return row?.[0] ?? null;
    },
  };
}

const LIVE_LOGS = `SELECT dataset_id, log_name, greatest(first_commit, closed_commit)::VARCHAR, commit_number::VARCHAR,
    (SELECT string_agg(column_name || ' ' || type, ',' ORDER BY "position") FROM feed_sync.columns c
      WHERE c.dataset_id = d.dataset_id),
    d.checksum::VARCHAR
  FROM feed_sync.history_logs JOIN feed_sync.datasets d USING (dataset_id) WHERE frozen_commit IS NULL
  ORDER BY dataset_id`;
