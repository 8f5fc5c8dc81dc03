/** The mirror in PostgreSQL: the state of a transaction, what became of a COMMIT, and what counts as progress. */

import type { Area } from '../mutant.ts';

const CONNECTION = 'src/destination/postgres/connection.ts';
const COMMIT = 'src/destination/postgres/commit.ts';
const FAULTS = 'contract/postgres-faults.slow.test.ts';
const PROGRESS = 'contract/postgres-progress.slow.test.ts';

export const POSTGRES: Area = {
  title: 'The mirror in PostgreSQL',
  mutants: [
    {
      name: 'a statement opens another connection where that of its transaction ended',
      file: CONNECTION,
      text: 'if (this.#isInTransaction) throw endedWithin();',
      instead: '',
      breaks: ['P1', 'F74'],
      tests: [FAULTS],
    },
    {
      name: 'a COMMIT without its connection counts as done',
      file: CONNECTION,
      text: `      await this.rollBack();
      throw endedWithin();`,
      instead: '      return await this.rollBack();',
      breaks: ['P2', 'F74'],
      tests: [FAULTS],
    },
    {
      name: 'a COMMIT that the server answers with ROLLBACK counts as done',
      file: CONNECTION,
      text: 'if (answer.command === ROLLED_BACK) {',
      instead: 'if (answer.command === `${ROLLED_BACK}.`) {',
      breaks: ['P2', 'F74'],
      tests: ['contract/postgres.slow.test.ts', FAULTS],
    },
    {
      name: 'a COMMIT whose answer is lost is repeated without a check of its result',
      file: COMMIT,
      text: 'if (!(error instanceof OutcomeUnknownError) || attempted === null) throw error;',
      instead:
        'if (!(error instanceof OutcomeUnknownError) || attempted !== null)\n      throw error instanceof OutcomeUnknownError ? error.cause : error;',
      breaks: ['P3', 'F74'],
      tests: [FAULTS],
    },
    {
      name: 'a COMMIT that could not be checked is forgotten',
      file: COMMIT,
      text: '{ ...before, sent: thrown.attempted }',
      instead: 'before',
      breaks: ['P3', 'F74'],
      tests: [FAULTS],
    },
    {
      name: 'the result of a COMMIT is checked while the server is still at it',
      file: COMMIT,
      text: '      await lease.waitForEarlier(transaction);',
      instead: '',
      breaks: ['P3', 'F74'],
      tests: [FAULTS],
    },
    {
      name: 'a commit of the instance that took over counts as its own',
      file: COMMIT,
      text: 'await lease.refuseIfLost(transaction);',
      instead: '',
      breaks: ['F73'],
      tests: [FAULTS],
    },
    {
      name: 'a statement that the server works on for long is a standstill',
      file: CONNECTION,
      text: 'this.#ended += (await beside.rows(working)).length;',
      instead: 'await beside.rows(working);',
      breaks: ['nothing is ended that works'],
      tests: [PROGRESS],
    },
    {
      name: 'a statement that waits for a lock is progress',
      file: CONNECTION,
      text: "NOT IN ('Lock', 'Client')",
      instead: "NOT IN ('Client')",
      breaks: ['nothing hangs for ever'],
      tests: [PROGRESS],
    },
    {
      name: 'a renewal of a lease checks no progress',
      file: 'src/destination/postgres/lease.ts',
      text: 'if (onRenewed !== undefined) await this.#connection.transaction(onRenewed).catch(() => {});',
      instead: 'void onRenewed;',
      breaks: ['nothing is ended that works'],
      tests: [PROGRESS],
    },
  ],
};
