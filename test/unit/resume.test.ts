/** Suspensions that an operator lifts, and retirements, which need an approval of their own. */

import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { commit, dropped, joined, openAt, suspensionOf } from '../support/checkpoint-files.ts';
import { commandLine } from '../support/command-line.ts';
import { CANARY_KEY } from '../support/feed-client.ts';

/** The workspace is refused, and tables wait to be retired. */
async function observed() {
  const feed = { baseUrl: 'http://127.0.0.1:9', apiKey: CANARY_KEY };
  const { dataDirectory, run, remove } = commandLine({ feed, now: () => new Date('2026-03-01T12:00:00Z') });
  onTestFinished(remove);
  const checkpoint = await openAt(join(dataDirectory, 'checkpoint.sqlite'));
  commit(checkpoint, 'sub_1', joined('dropped'), dropped('dropped'));
  checkpoint.suspend(suspensionOf({ kind: 'workspace' }));
  checkpoint.suspend(suspensionOf({ kind: 'retirement' }));
  return { checkpoint, run };
}

const phaseOf = (checkpoint: Checkpoint) => ({
  observed: checkpoint.suspensions().map(({ refusal }) => refusal.scope.kind),
  isApproved: checkpoint.desired('dropped')?.retirementApproved,
});

it('W26 lifts every refusal with --all, and approves no retirement', async () => {
  const { checkpoint, run } = await observed();
  const said = await run('resume', '--all');
  expect(said).toMatchObject({ exitCode: 0, stderr: '' });
  expect(said.stdout).toContain('Retirements still wait for you to agree to them: feed-sync resume --retire');
  expect(phaseOf(checkpoint)).toEqual({ observed: ['retirement'], isApproved: false });
});

it('W26 approves retirements with --retire, and lifts no refusal', async () => {
  const { checkpoint, run } = await observed();
  expect(await run('resume', '--retire', '--yes')).toMatchObject({ exitCode: 0, stderr: '' });
  expect(phaseOf(checkpoint)).toEqual({ observed: ['workspace'], isApproved: true });
});
