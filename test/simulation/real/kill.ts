/** The real program, killed while it catches up: at a request that the feed receives, or at an effect that lasts. */

import type { Act } from '../../../fixtures/feed/faults.ts';
import type { FixtureFeed } from '../../../fixtures/feed/feed.ts';
import type { Operation } from '../../../fixtures/feed/operations.ts';
import { EXIT_CODES } from '../../../src/cli/exit-codes.ts';
import type { Ended, Running } from '../../support/program.ts';
import { BrokenRule } from '../rules.ts';
import type { DeathPoint } from '../stage.ts';

/** `start` starts the program, steered by those variables of its environment. */
type Start = (steering: Readonly<Record<string, string>>) => Promise<Running>;

export interface Killed {
  readonly died: boolean;
  readonly reported: string;
}

/** Before and after a commit are two of the points of durable effects: one of the first is taken. */
export async function killAt(at: DeathPoint, feed: FixtureFeed, start: Start): Promise<Killed> {
  if (at.kind === 'request') return await killAtRequest(at.operation, at.nth, feed, start);
  const isNamed = at.kind === 'effect' && at.name !== undefined;
  const running = await start({ STEERED_KILL_AT: isNamed ? `before ${at.name} ${at.nth}` : String(at.nth) });
  return report(await running.ended);
}

async function killAtRequest(
  operation: Operation,
  nth: number,
  feed: FixtureFeed,
  start: Start,
): Promise<Killed> {
  let running: Running | null = null;
  const kill = (): void => running?.kill('SIGKILL');
  const fault = feed.faults.add({ match: { operation, nth }, act: killingAct(operation, kill) });
  running = await start({});
  const ended = await running.ended;
  feed.faults.remove(fault.id);
  return report(ended);
}

function killingAct(operation: Operation, kill: () => void): Act {
  const rewrite = (body: unknown): unknown => {
    kill();
    return body;
  };
  if (operation !== 'file') return { kind: 'rewrite', rewrite };
  const half = Buffer.from('PAR1');
  return {
    kind: 'stream',
    status: 200,
    async *body() {
      kill();
      yield half;
    },
  };
}

function report({ exitCode, signal, stdout, stderr }: Ended): Killed {
  if (signal === 'SIGKILL') return { died: true, reported: signal };
  if (signal !== null || exitCode === EXIT_CODES.bug)
    throw new BrokenRule('bug', `The program ended with ${exitCode ?? signal}:\n${stdout}\n${stderr}`);
  return { died: false, reported: `it was done before, with exit code ${exitCode}` };
}
