/** The real program, killed while it catches up: at a request that the feed receives, or at an effect that lasts. */

import type { Act } from '../../fixtures/feed/faults.ts';
import type { Operation } from '../../fixtures/feed/operations.ts';
import { EXIT_CODES } from '../../src/cli/exit-codes.ts';
import type { Ended, Running } from '../support/program.ts';
import type { World } from './world.ts';

/** Kills it when the feed receives the nth request of the operation. */
export async function killAtRequest(world: World, operation: Operation, nth: number): Promise<string> {
  world.tick();
  let running: Running | null = null;
  const kill = (): void => running?.kill('SIGKILL');
  const fault = world.feed.faults.add({ match: { operation, nth }, act: killingAct(operation, kill) });
  running = await world.installation.startOnce();
  const ended = await running.ended;
  world.feed.faults.remove(fault.id);
  return `at request ${nth} of ${operation}: ${tell(ended, world)}`;
}

/** Kills it at the nth of the moments before and after the effects that outlive it. */
export async function killAtDurableMoment(world: World, nth: number): Promise<string> {
  world.tick();
  const running = await world.installation.startOnce({ STEERED_KILL_AT: String(nth) });
  return `at durable moment ${nth}: ${tell(await running.ended, world)}`;
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

function tell({ exitCode, signal, stdout, stderr }: Ended, { tally }: World): string {
  if (signal === 'SIGKILL') tally.add('seen: the process was killed');
  else if (signal !== null || exitCode === EXIT_CODES.bug)
    throw new Error(`The program ended with ${exitCode ?? signal}:\n${stdout}\n${stderr}`);
  return signal ?? `it was done before, with exit code ${exitCode}`;
}
