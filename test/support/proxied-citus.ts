/** Citus whose nodes are reached by sockets of their own, so that a test chooses the moment at which one answers nothing any more. */

import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import type { CitusCluster } from '../../fixtures/citus-cluster.ts';
import { addressIn, statement } from '../../fixtures/postgres-server.ts';
import type { PostgresOptions } from '../../src/destination/postgres/destination.ts';
import { present } from '../../src/lib/assert.ts';
import { type TwoStates, twoStatesIn } from './citus-states.ts';
import { cuttingProxy } from './cutting-proxy.ts';

type Proxy = Awaited<ReturnType<typeof cuttingProxy>>;

export interface ProxiedStates extends TwoStates {
  /** The socket before the coordinator. */
  readonly coordinator: Proxy;
  /** The socket before the worker that has the schema. */
  proxyOf(schema: string): Promise<Proxy>;
}

/** Loads three people of each state, as `twoStatesIn` does. */
export async function proxiedStatesIn(
  cluster: CitusCluster,
  options: Partial<PostgresOptions> = {},
): Promise<ProxiedStates> {
  const proxies = new Map<string, Proxy>();
  let coordinator = null as Proxy | null;
  const database = async (): Promise<string> => {
    const address = await cluster.database();
    for (const { home } of cluster.workers) {
      const proxy = await cuttingProxy(addressIn(home, 'postgres'));
      const folder = present(
        new URL(proxy.address.replace('@/', '@socket/')).searchParams.get('host'),
        'it is a socket',
      );
      // The server may be another user.
      await chmod(folder, 0o755);
      await chmod(join(folder, '.s.PGSQL.5432'), 0o777);
      const moved = `SELECT citus_update_node(nodeid, '${folder}', 5432) FROM pg_dist_node WHERE nodename = '${home}'`;
      await statement(address, moved);
      proxies.set(folder, proxy);
    }
    await statement(address, 'SELECT start_metadata_sync_to_all_nodes()');
    coordinator = await cuttingProxy(address);
    return coordinator.address;
  };
  const states = await twoStatesIn({ ...cluster, database }, options);
  return {
    ...states,
    coordinator: present(coordinator, 'a database was made'),
    async proxyOf(schema) {
      const [[folder] = []] = await states.world.byHand(
        `SELECT DISTINCT nodename FROM citus_shards WHERE starts_with(table_name::text, '${schema}.')`,
      );
      return present(proxies.get(String(folder)), 'a worker has the schema');
    },
  };
}
