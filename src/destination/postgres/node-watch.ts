/**
 * Watches the node of the schema that a commit works on. A node that is stopped and keeps its connections answers nothing, and the
 * server waits for it without end: such a commit is given up, so that those of other nodes go on.
 *
 * Invariant: a commit is given up before its COMMIT was sent, or not at all.
 */

import { type Clock, deadlineIn } from '../../lib/clock.ts';
import type { Secret } from '../../lib/secret.ts';
import { numberAt, text, textAt } from '../../staging/engine/sql.ts';
import { recoverPrepared } from './catalog/distributed.ts';
import { Connection, type Transaction } from './connection.ts';
import { PostgresError } from './errors.ts';

/** A commit that has taken so long is worth a question to its node. */
const ASK_AFTER_MS = 10_000;
/** The server gives up on a node after `citus.node_connection_timeout`, by default 30 s. */
const ANSWER_MS = 45_000;
/** A node that refuses within this time is asked before each commit: it may be there the next moment. */
const LONG_MS = 10_000;
/** A node that gave no answer is asked again after this time, for its next commit. */
const ASK_AGAIN_AFTER_MS = 60_000;
/** The server tries each node that is missing for `citus.node_connection_timeout`, one after another. */
const RECOVER_WITHIN_MS = 60_000;
/** A node that is busy answers late once. */
const MAX_UNANSWERED = 2;

interface Node {
  readonly host: string;
  readonly port: number;
}

interface Watched {
  readonly node: Node;
  readonly sinceMs: number;
  unanswered: number;
}

export interface NodeWatchOptions {
  readonly url: Secret;
  readonly clock: Clock;
  /** Ends the transaction of the commit with this error, where its COMMIT was not sent. */
  giveUp(error: PostgresError): void;
}

export class NodeWatch {
  readonly #options: NodeWatchOptions;
  /** By host and port: when a node last gave no answer; null: it is asked before its next commit. */
  readonly #silent = new Map<string, number | null>();
  #watched: Watched | null = null;
  #isAsking = false;

  constructor(options: NodeWatchOptions) {
    this.#options = options;
  }

  /** Begins with a commit that works on the schema. @throws PostgresError where its node was silent, and still is */
  async begin(transaction: Transaction, schemaName: string): Promise<void> {
    const node = await nodeOf(transaction, schemaName);
    if (node === null) return;
    if (await this.#isSilent(node)) throw silence(node);
    this.#watched = { node, sinceMs: this.#options.clock.monotonicMs(), unanswered: 0 };
  }

  /** Has the node asked before its next commit, because it was lost in this one. */
  noteLost(): void {
    if (this.#watched === null) return;
    const name = nameOf(this.#watched.node);
    if (!this.#silent.has(name)) this.#silent.set(name, null);
  }

  /** Asks a node that is known to be silent, but not for each of its datasets: all others wait for the answer. */
  async #isSilent(node: Node): Promise<boolean> {
    const askedMs = this.#silent.get(nameOf(node));
    if (askedMs === undefined) return false;
    const { clock } = this.#options;
    if (askedMs !== null && clock.monotonicMs() - askedMs < ASK_AGAIN_AFTER_MS) return true;
    return !(await this.#answers(node));
  }

  /** Ends with the commit. */
  end(): void {
    this.#watched = null;
  }

  /** Asks the node of a commit that takes long; called from time to time. Never rejects. */
  async check(): Promise<void> {
    const watched = this.#watched;
    const isLong = watched !== null && this.#options.clock.monotonicMs() - watched.sinceMs >= ASK_AFTER_MS;
    if (!isLong || this.#isAsking) return;
    this.#isAsking = true;
    try {
      watched.unanswered = (await this.#answers(watched.node)) ? 0 : watched.unanswered + 1;
    } finally {
      this.#isAsking = false;
    }
    if (watched.unanswered < MAX_UNANSWERED || this.#watched !== watched) return;
    this.#options.giveUp(silence(watched.node));
  }

  /**
   * Has the coordinator end what nodes have prepared, in a session of its own, because it asks all nodes, also those that are silent.
   * Never rejects: whatever goes wrong, the next commit shows.
   */
  async recover(): Promise<void> {
    await this.#beside(RECOVER_WITHIN_MS, (beside) => beside.transaction(recoverPrepared)).catch(() => {});
  }

  /** Has the server connect to the node. Never rejects: a server that does not say is asked again. */
  async #answers(node: Node): Promise<boolean> {
    const { clock } = this.#options;
    const startedMs = clock.monotonicMs();
    const asked = `SELECT 1 WHERE pg_catalog.citus_check_connection_to_node(${text(node.host)}, ${node.port})`;
    try {
      const answers = (await this.#beside(ANSWER_MS, (beside) => beside.rows(asked))).length > 0;
      const endedMs = clock.monotonicMs();
      if (answers) this.#silent.delete(nameOf(node));
      else this.#silent.set(nameOf(node), endedMs - startedMs < LONG_MS ? null : endedMs);
      return answers;
    } catch {
      return true;
    }
  }

  /** Works in a session that has no connection to a node yet, and is left behind after this time. @throws what `work` throws */
  async #beside<T>(withinMs: number, work: (beside: Connection) => Promise<T>): Promise<T> {
    const { url, clock } = this.#options;
    const connection = new Connection({ url, clock, answerMs: withinMs });
    const { over } = deadlineIn(withinMs);
    const abandon = (): void => connection.abandon();
    over.addEventListener('abort', abandon);
    try {
      return await work(connection);
    } finally {
      over.removeEventListener('abort', abandon);
      await connection.close();
    }
  }
}

function nameOf({ host, port }: Node): string {
  return `${host}:${port}`;
}

function silence(node: Node): PostgresError {
  return new PostgresError('node-unavailable', `${nameOf(node)} does not answer`, null);
}

async function nodeOf(transaction: Transaction, schemaName: string): Promise<Node | null> {
  const [row] = await transaction.rows(`SELECT node.nodename::text, node.nodeport
    FROM pg_catalog.pg_dist_schema AS placed JOIN pg_catalog.pg_dist_partition AS part USING (colocationid)
      JOIN pg_catalog.pg_dist_shard AS shard USING (logicalrelid)
      JOIN pg_catalog.pg_dist_placement AS placement USING (shardid)
      JOIN pg_catalog.pg_dist_node AS node ON node.groupid = placement.groupid AND node.noderole = 'primary'
    WHERE placed.schemaid = (SELECT oid FROM pg_namespace WHERE nspname = ${text(schemaName)}) LIMIT 1`);
  return row === undefined ? null : { host: textAt(row, 0), port: numberAt(row, 1) };
}
