/** Commands that delete, take back or replace show their effect and ask first. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { commit, dropped, joined, openAt, suspensionOf } from '../support/checkpoint-files.ts';
import { commandLine } from '../support/command-line.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { writeMirror } from '../support/mirror-file.ts';

const QUESTIONS = [
  {
    words: ['forget', '--subscription', 'gone'],
    shown: 'This gives up subscription gone. The tables of 1 dataset are retired: roads.',
    question: 'Forget? [y/N] ',
    done: 'Forgotten: subscription gone.',
  },
  {
    words: ['resync', '--all'],
    shown: 'This loads the snapshots of all 1 dataset again.',
    question: 'Load them all again? [y/N] ',
    done: 'Will be loaded again from the snapshot',
  },
  {
    words: ['resync', 'roads', 'us-*'],
    alsoMembers: ['us-az-zoning', 'us-tx-zoning'],
    shown: 'This loads the snapshots of 3 datasets again: roads, us-az-zoning, us-tx-zoning.',
    question: 'Load them all again? [y/N] ',
    done: 'Will be loaded again from the snapshot',
  },
  {
    words: ['resume', '--retire'],
    shown: 'This retires the tables of 1 dataset, which no subscription contains: parcels.',
    question: 'Retire them? [y/N] ',
    done: 'Agreed. Will be retired at the next catch-up',
  },
];

async function asked(answer: string | null, alsoMembers: readonly string[] = []) {
  const questions: string[] = [];
  const ask = async (question: string) => {
    questions.push(question);
    return answer ?? '';
  };
  const feed = { baseUrl: 'http://127.0.0.1:9', apiKey: CANARY_KEY };
  const now = () => new Date('2026-03-01T12:00:00Z');
  const line = commandLine({ feed, now, ...(answer === null ? {} : { ask }) });
  onTestFinished(line.remove);
  const checkpoint = await openAt(join(line.dataDirectory, 'checkpoint.sqlite'));
  commit(
    checkpoint,
    'gone',
    joined('roads'),
    joined('parcels'),
    dropped('parcels'),
    ...alsoMembers.map((id) => joined(id)),
  );
  const dump = readFileSync(new URL('mirror-formats/format-3.sql', import.meta.url), 'utf8');
  await writeMirror(join(line.dataDirectory, 'mirror.duckdb'), dump);
  const missing = suspensionOf({ kind: 'subscription', subscriptionId: 'gone' });
  const refusal = { ...missing.refusal, code: 'subscription_missing', status: null };
  checkpoint.suspend({ ...missing, refusal });
  const stored = () =>
    JSON.stringify([checkpoint.forgotten(), [...checkpoint.desiredStates().values()].map(String)]);
  return { run: line.run, questions, stored };
}

describe.each(QUESTIONS)('$words.0 $words.1', ({ words, alsoMembers, shown, question, done }) => {
  it('shows the effect of a command and asks, and executes it where the answer is yes', async () => {
    const { run, questions } = await asked('Yes', alsoMembers);
    const said = await run(...words);
    expect(said).toMatchObject({ exitCode: 0, stderr: `${shown}\n` });
    expect(said.stdout).toContain(done);
    expect(questions).toEqual([question]);
  });

  it.each(['', 'no', 'yes please'])(
    'executes nothing where the answer is %j, and ends with 64',
    async (answer) => {
      const { run, stored } = await asked(answer, alsoMembers);
      const before = stored();
      const said = await run(...words);
      expect(said).toMatchObject({ exitCode: 64, stdout: '' });
      expect(said.stderr).toContain('Nothing was done: the answer was not yes.');
      expect(stored()).toBe(before);
    },
  );

  it('executes nothing without a terminal, names --yes, and ends with 64', async () => {
    const { run, stored } = await asked(null, alsoMembers);
    const before = stored();
    expect(await run(...words)).toMatchObject({
      exitCode: 64,
      stdout: '',
      stderr: `feed-sync: ${shown} Nothing was done, because nobody was asked. [usage_invalid]\n→ Give --yes, or run it on a terminal.\n`,
    });
    expect(stored()).toBe(before);
  });

  it('asks nothing with --yes', async () => {
    const { run, questions } = await asked('no', alsoMembers);
    const said = await run(...words, '--yes');
    expect(said).toMatchObject({ exitCode: 0, stderr: '' });
    expect(said.stdout).toContain(done);
    expect(questions).toEqual([]);
  });
});

it.each([
  { words: ['resync', 'us-az-zoning', 'us-tx-zoning'], why: 'names each dataset' },
  { words: ['resync', 'us-az-*', 'us-tx-zoning'], why: 'has globs that add one dataset' },
])('resync asks nothing where it $why', async ({ words }) => {
  const { run, questions } = await asked('no', ['us-az-zoning', 'us-tx-zoning']);
  const said = await run(...words);
  expect(said).toMatchObject({ exitCode: 0, stderr: '' });
  expect(said.stdout).toContain('us-az-zoning, us-tx-zoning.');
  expect(questions).toEqual([]);
});

it('resync refuses an unknown name before it asks', async () => {
  const { run, questions } = await asked('yes', ['us-az-zoning', 'us-tx-zoning']);
  const said = await run('resync', 'us-*', 'nothing');
  expect(said).toMatchObject({ exitCode: 64, stderr: expect.stringContaining('No subscription contains') });
  expect(questions).toEqual([]);
});
