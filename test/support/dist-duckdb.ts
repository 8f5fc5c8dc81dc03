/** DuckDB as the built program has it, for scripts that stand in its way. */

import type * as DuckDb from '@duckdb/node-api';

const dist = new URL('../../dist/', import.meta.url);

/** Its package is a module of the old kind. */
export const { default: duckDb }: { readonly default: typeof DuckDb } = await import(
  new URL('duckdb.js', dist).href
);
