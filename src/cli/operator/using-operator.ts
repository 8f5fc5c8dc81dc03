/** The operator's client for the time of one command. */

import type { Configuration } from '../../configuration/configuration.ts';
import { createOperator } from '../../feed/create-operator.ts';
import type { Operator } from '../../feed/operator.ts';
import type { Context } from '../context.ts';
import { feedOptions } from '../feed-options.ts';
import { logFor } from '../log-for.ts';

/** What `use` makes of the client, which is closed then. */
export async function usingOperator<T>(
  configuration: Configuration,
  context: Context,
  use: (operator: Operator) => Promise<T>,
): Promise<T> {
  const log = logFor(configuration, context.terminal);
  const operator = createOperator(feedOptions(configuration, context, log));
  try {
    return await use(operator);
  } finally {
    await operator.close();
  }
}
