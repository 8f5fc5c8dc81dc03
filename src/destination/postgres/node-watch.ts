/**
 * Watches the node of the schema that a transaction works on, or all nodes where it takes them. A node that is stopped and keeps its
 * connections answers nothing, and the server waits for it without end: such a transaction is given up, so that others go on.
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
/** A recovery is waited for so long: nodes that answer are done with by then. */
const RECOVER_PATIENCE_MS = 10_000;
/** What Citus does on every node; ANALYZE, COMMENT and objects of the session it does not. */
const TAKES_ALL = /^\s*(?:(?:CREATE|ALTER|DROP|GRANT|REVOKE)\b(?! TEMP)|SELECT citus_schema_)/;
const ALL_NODES = `SELECT nodename::text, nodeport FROM pg_catalog.pg_dist_node
  WHERE isactive AND noderole = 'primary' AND groupid <> 0 ORDER BY nodeid`;
/** So often a transaction is looked at beside which nobody else calls `check`. */
const CHECK_EVERY_MS = 2_000;
/** A node that is busy answers late once. */
const MAX_UNANSWERED = 2;

interface Node {
  readonly host: string;
  readonly port: number;
}

interface Watched {
  readonly sinceMs: number;
  /** The node of the schema that the transaction works on; null where it was not named. */
  node: Node | null;
  takesAll: boolean;
  unanswered: number;
}

interface Silent {
  readonly node: Node;
  /** When it last gave no answer; null: it is asked before its next commit. */
  readonly askedMs: number | null;
}

/** A node does not answer, and another attempt would wait for it, too. */
export class SilentNodeError extends PostgresError {
  constructor(node: Node) {
    super('node-unavailable', `${nameOf(node)} does not answer`, null);
  }
}

export interface NodeWatchOptions {
  readonly url: Secret;
  readonly clock: Clock;
  /** Ends the transaction with this error. */
  giveUp(error: PostgresError): void;
}

export class NodeWatch {
  readonly #options: NodeWatchOptions;
  /** By host and port. */
  readonly #silent = new Map<string, Silent>();
  #watched: Watched | null = null;
  #isAsking = false;
  #recovering: Promise<void> | null = null;

  constructor(options: NodeWatchOptions) {
    this.#options = options;
  }

  /** Begins to watch a transaction. */
  start(): void {
    const { clock } = this.#options;
    this.#watched = { sinceMs: clock.monotonicMs(), node: null, takesAll: false, unanswered: 0 };
  }

  /** Ends with the transaction. */
  end(): void {
    this.#watched = null;
  }

  /** Watches a transaction from its beginning to its end. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.start();
    try {
      return await work();
    } finally {
      this.end();
    }
  }

  /** Watches a reader's transaction: beside it nobody else calls `check`. */
  async duringAlone<T>(work: () => Promise<T>): Promise<T> {
    const ended = new AbortController();
    const checks = this.#checkUntil(ended.signal);
    try {
      return await this.during(work);
    } finally {
      ended.abort();
      await checks;
    }
  }

  async #checkUntil(ended: AbortSignal): Promise<void> {
    while (!ended.aborted) {
      await this.#options.clock.sleep(CHECK_EVERY_MS, ended).catch(() => {});
      if (!ended.aborted) void this.check();
    }
  }

  /** The transaction works on the schema. @throws SilentNodeError where its node was silent, and still is */
  async begin(transaction: Transaction, schemaName: string): Promise<void> {
    const node = await nodeOf(transaction, schemaName);
    if (node === null) return;
    if (await this.#isSilent(node)) throw new SilentNodeError(node);
    if (this.#watched !== null) this.#watched.node = node;
  }

  /** Called before each statement of a transaction. @throws SilentNodeError where it takes all nodes, and one was silent, and still is */
  async beforeStatement(sql: string): Promise<void> {
    if (this.#watched === null || !TAKES_ALL.test(sql)) return;
    for (const { node } of this.#silent.values())
      if (await this.#isSilent(node)) throw new SilentNodeError(node);
    this.#watched.takesAll = true;
  }

  /** Has the node asked before its next commit, because it was lost in this one. */
  noteLost(): void {
    const node = this.#watched?.node ?? null;
    if (node !== null && !this.#silent.has(nameOf(node)))
      this.#silent.set(nameOf(node), { node, askedMs: null });
  }

  /** Asks a node that is known to be silent, but not for each of its datasets: all others wait for the answer. */
  async #isSilent(node: Node): Promise<boolean> {
    const known = this.#silent.get(nameOf(node));
    if (known === undefined) return false;
    const { askedMs } = known;
    const { clock } = this.#options;
    if (askedMs !== null && clock.monotonicMs() - askedMs < ASK_AGAIN_AFTER_MS) return true;
    return !(await this.#answers(node));
  }

  /** Asks the nodes of a transaction that takes long; called from time to time. Never rejects. */
  async check(): Promise<void> {
    const watched = this.#watched;
    const isLong = watched !== null && this.#options.clock.monotonicMs() - watched.sinceMs >= ASK_AFTER_MS;
    if (!isLong || this.#isAsking) return;
    this.#isAsking = true;
    let silent: Node | null = null;
    try {
      silent = await this.#findSilent(watched);
      watched.unanswered = silent === null ? 0 : watched.unanswered + 1;
    } finally {
      this.#isAsking = false;
    }
    if (silent === null || watched.unanswered < MAX_UNANSWERED || this.#watched !== watched) return;
    this.#options.giveUp(new SilentNodeError(silent));
  }

  /** Returns a node that the transaction needs, and that does not answer. */
  async #findSilent({ node, takesAll }: Watched): Promise<Node | null> {
    const nodes = takesAll ? await this.#allNodes() : node === null ? [] : [node];
    for (const one of nodes) if (!(await this.#answers(one))) return one;
    return null;
  }

  async #allNodes(): Promise<readonly Node[]> {
    const rows = await this.#beside(ANSWER_MS, (beside) => beside.rows(ALL_NODES)).catch(() => []);
    return rows.map((row) => ({ host: textAt(row, 0), port: numberAt(row, 1) }));
  }

  /**
   * Has the coordinator end what nodes have prepared, in a session of its own, because it asks all nodes, also those that are silent:
   * where it takes long, it goes on without being waited for. Never rejects: whatever goes wrong, the next commit shows.
   */
  async recover(): Promise<void> {
    this.#recovering ??= this.#beside(RECOVER_WITHIN_MS, (beside) => beside.transaction(recoverPrepared))
      .catch(() => {})
      .finally(() => {
        this.#recovering = null;
      });
    await Promise.race([this.#recovering, this.#options.clock.sleep(RECOVER_PATIENCE_MS)]);
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
      else this.#silent.set(nameOf(node), { node, askedMs: endedMs - startedMs < LONG_MS ? null : endedMs });
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

/** Returns the watch over the transactions of a connection that only reads; null where there is no Citus. */
export function watchReader(
  connection: Connection,
  { url, clock }: Omit<NodeWatchOptions, 'giveUp'>,
): NodeWatch | null {
  if (!connection.isCitus) return null;
  return new NodeWatch({ url, clock, giveUp: (error) => connection.giveUp(error) });
}

function nameOf({ host, port }: Node): string {
  return `${host}:${port}`;
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
