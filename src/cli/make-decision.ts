/**
 * Decisions of operators about a checkpoint (`resync`, `resume`, `forget`): each is made where it takes effect. On a file, and where
 * this data directory's own instance works on the database, that is the checkpoint here, also beside a running instance: `run` acts
 * on it within a second, otherwise the next catch-up does. Where an instance of another data directory works on the database, the
 * decision is a request to that one, and its answer is shown.
 */

import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import { NO_DATASET } from '../checkpoint/requests.ts';
import { openCheckpointBeside } from '../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import { UsageError } from '../model/errors.ts';
import { confirm, type Intent } from './confirm.ts';
import { type Context, write } from './context.ts';
import { runningInstance } from './data-directory.ts';
import type { AskedDecision, Decided, Decision } from './decision.ts';
import { askElsewhere } from './operator-request.ts';

/**
 * Lets the operator confirm a decision, makes it, reports it, and returns why a part of it was not decided. @throws UsageError where
 * there is no checkpoint yet. @throws RequestRefusedError where another instance was asked and refused.
 */
export async function makeDecision<Parameters>(
  decision: Decision<Parameters>,
  parameters: Parameters,
  isYes: boolean,
  configuration: LocalConfiguration,
  context: Context,
): Promise<UsageError | null> {
  const { lines, refusal = null } =
    (await decideElsewhere(decision, parameters, isYes, configuration, context)) ??
    (await decideHere(decision, parameters, isYes, configuration, context));
  if (lines.length > 0) await write(context.terminal.stdout, `${lines.join('\n')}\n`);
  return refusal;
}

async function decideHere<Parameters>(
  decision: Decision<Parameters>,
  parameters: Parameters,
  isYes: boolean,
  configuration: LocalConfiguration,
  context: Context,
): Promise<Decided> {
  const { clock, identity } = context;
  const using = <Result>(use: (checkpoint: Checkpoint) => Result): Result => {
    const { path } = configuration.checkpoint;
    const checkpoint = openCheckpointBeside({ path, uid: identity.uid, clock });
    if (checkpoint === null) {
      throw new UsageError(`There is nothing ${decision.purpose}: no catch-up has run here yet.`, {
        hint: 'feed-sync once',
      });
    }
    try {
      return use(checkpoint);
    } finally {
      checkpoint.close();
    }
  };
  // The checkpoint is closed while the operator thinks, and the decision reads it anew.
  const intent = using((checkpoint) => decision.intent(parameters, checkpoint));
  if (intent !== null) await confirm(isYes, intent, context);
  const decided = using((checkpoint) => decision.decide(parameters, checkpoint));
  const holder = decided.isAnyDone ? runningInstance(configuration, context) : null;
  if (holder?.command !== 'run') return decided;
  const begins = `feed-sync run is at work here (process ${holder.pid}): it begins within a second.`;
  return { ...decided, lines: [...decided.lines, begins] };
}

/** Null where no instance of another data directory works on the destination. @throws RequestRefusedError */
async function decideElsewhere<Parameters>(
  { command }: Decision<Parameters>,
  parameters: Parameters,
  isYes: boolean,
  configuration: LocalConfiguration,
  context: Context,
): Promise<Decided | null> {
  const ask = (isSimulated: boolean) => {
    const asked: AskedDecision = { isSimulated, decision: parameters };
    return askElsewhere({ datasetId: NO_DATASET, command, parameters: asked }, configuration, context);
  };
  const simulated = await ask(true);
  if (simulated === null) return null;
  const intent = JSON.parse(simulated) as Intent | null;
  if (intent !== null) await confirm(isYes, intent, context);
  const answer = await ask(false);
  return answer === null ? null : { lines: answer === '' ? [] : [answer], isAnyDone: true };
}
