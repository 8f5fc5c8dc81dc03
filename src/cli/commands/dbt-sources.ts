/** `feed-sync dbt-sources`: writes the tables of the mirror as a file of sources for dbt. */

import type { LocalConfiguration } from '../../configuration/configuration.ts';
import { describedTables } from '../../destination/catalog/described-tables.ts';
import { plural } from '../../lib/units.ts';
import { usingMirror } from '../../reporting/stores.ts';
import { type Context, write, writeMessage } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { type DbtOptions, dbtSources } from '../render/dbt-sources.ts';
import { readingPlace } from '../render/screen.ts';

/**
 * Writes the sources for dbt. @throws StorageError when there is no mirror. @throws BusyError when a writer keeps the mirror locked for
 * longer than `lock.wait`.
 */
export async function writeDbtSources(
  options: DbtOptions,
  configuration: LocalConfiguration,
  context: Context,
): Promise<ExitCode> {
  const { tables, unions } = await usingMirror(
    configuration,
    readingPlace(configuration, context),
    async (reader) => ({
      tables: await describedTables(reader),
      unions: (await reader.unions?.()) ?? [],
    }),
  );
  const { text, leftOut } = dbtSources(tables, unions, options);
  await write(context.terminal.stdout, text);
  if (leftOut.length > 0) {
    const what = `${plural(leftOut.length, 'column')} with Jinja, quotes or control characters in the name`;
    await writeMessage(context.terminal, `Left out, because dbt cannot name them: ${what}.\n`);
  }
  return EXIT_CODES.caughtUp;
}
