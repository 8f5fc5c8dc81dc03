/** `feed-sync rollback`: has a table with history restored to an earlier state, and pinned there. */

import type { Configuration } from '../../configuration/configuration.ts';
import type { SimulatedRollback } from '../../destination/reader.ts';
import { printable, shellWord } from '../../lib/text.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { UsageError } from '../../model/errors.ts';
import { usingMirror } from '../../reporting/stores.ts';
import type { RollbackParameters } from '../../sync/rollback.ts';
import { confirm, type Intent } from '../confirm.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { performRequest } from '../operator-request.ts';
import { type PastStateFlags, pastStateOf } from '../past-state.ts';
import { readingPlace } from '../render/screen.ts';
import { nameOf } from './diff.ts';

/**
 * Requests a rollback. @throws UsageError where no state is named, where the history does not know it, and where the operator does not
 * agree.
 * @throws RequestRefusedError with the error of the rollback; nothing is changed then.
 */
export async function rollback(
  datasetId: string,
  flags: PastStateFlags,
  isYes: boolean,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const state = pastStateOf('to', flags);
  if (state === null) {
    throw new UsageError('rollback needs to know to which state.', {
      hint: 'Give --to-version, --to-commit or --to-time; feed-sync query "SELECT * FROM feed_sync.commits" lists the states.',
    });
  }
  const simulated = await usingMirror(configuration, readingPlace(configuration, context), (reader) =>
    reader.simulateRollback(datasetId, state),
  );
  await confirm(isYes, intentOf(datasetId, simulated), context);
  const { commitNumber, toVersion: version } = simulated.to;
  const parameters: RollbackParameters = { commitNumber, version };
  const text = await performRequest({ datasetId, command: 'rollback', parameters }, configuration, context);
  await write(context.terminal.stdout, `${printable(text)}\n`);
  return EXIT_CODES.caughtUp;
}

function intentOf(datasetId: string, { from, to, net }: SimulatedRollback): Intent {
  const effect =
    net === null
      ? 'Rows and columns are those of then.'
      : `${plural(net.added, 'row')} added, ${formatCount(net.changed ?? 0)} changed, ${formatCount(net.removed)} removed.`;
  const resume = `feed-sync resume --dataset ${shellWord(datasetId)}`;
  return {
    lines: [
      `This takes ${printable(datasetId)} from ${nameOf(from)} back to ${nameOf(to)}: ${effect}`,
      `It then takes no new version until "${resume}".`,
    ],
    question: 'Roll it back?',
  };
}
