/** Statements that are short, and many, are handed over at once: one after another that takes longer than to do them. */

import type { Engine } from './engine.ts';

/** Does nothing where there are none. @throws DuckDbError */
export async function runTogether(engine: Engine, statements: readonly string[]): Promise<void> {
  if (statements.length > 0) await engine.run(statements.join(';\n'));
}
