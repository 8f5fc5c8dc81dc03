/** How the settings of gates are read. */

import { describe, expect, it } from 'vitest';
import { choicesOf } from '../../src/cli/open-parts.ts';
import { load, loadFile, problemsOf, REQUIRED } from '../support/configuration.ts';

const REQUIRED_FILE = `service: { baseUrl: ${REQUIRED.FEED_SYNC_BASE_URL}, apiKey: "${REQUIRED.FEED_SYNC_API_KEY}" }\n`;

const removedRows = (text: string) =>
  load({ flags: { '--gates-removed-rows': text } }).configuration.gates.limits.removedRows;

describe('a limit of rows in the settings of gates', () => {
  it.each([
    ['off', null],
    ['0', { rows: 0, share: null }],
    ['1000', { rows: 1_000, share: null }],
    ['25%', { rows: null, share: 0.25 }],
    ['0.5 %', { rows: null, share: 0.005 }],
    ['1000, 25%', { rows: 1_000, share: 0.25 }],
    ['25%,1000', { rows: 1_000, share: 0.25 }],
  ])('reads the limit of rows %s', (text, limit) => {
    expect(removedRows(text)).toEqual(limit);
  });

  it.each(['many', '-1', '1.5', '101%', '1000,2000', '10%,20%', '1,2%,3', 'off,10', '10,'])(
    'refuses the limit of rows %s with an example',
    (text) => {
      const [problem = ''] = problemsOf(() => removedRows(text));
      expect(problem).toMatch(
        /^gates\.removedRows .*; write off, a number, a share such as 25%, or a list of both/,
      );
    },
  );
});

describe('the rules of gates', () => {
  const gates = (yaml: string) => choicesOf(loadFile(`${REQUIRED_FILE}${yaml}`).configuration).limitsOf;

  it('applies the first rule that matches a dataset, and the general limits for what it leaves out', () => {
    const limitsOf = gates(`gates:
  removedRows: [1000, 25%]
  rules:
    - { datasets: [us-tx-*], removedRows: off, emptied: suspend }
    - { datasets: [us-*], changedRows: 5 }
`);
    const general = { rows: 1_000, share: 0.25 };
    expect(limitsOf('us-tx-1')).toEqual({ removedRows: null, changedRows: null, emptied: true });
    expect(limitsOf('us-ny-1')).toEqual({
      removedRows: general,
      changedRows: { rows: 5, share: null },
      emptied: false,
    });
    expect(limitsOf('fr-1')).toEqual({ removedRows: general, changedRows: null, emptied: false });
  });

  it.each([
    ['{ datasets: [a], removed: 1 }', 'item 1 has the unknown key'],
    ['{ datasets: [a], __proto__: 1 }', "item 1 has the unknown key '__proto__'"],
    ['{ removedRows: 1 }', 'item 1 datasets is not a list of patterns of ids'],
    ['{ datasets: [a], removedRows: x }', 'item 1 removedRows is'],
    ['5', 'item 1 is the number 5; write for example'],
  ])('refuses the rule %s: %s', (rule, expected) => {
    const [problem = ''] = problemsOf(() => gates(`gates:\n  rules: [${rule}]\n`));
    expect(problem).toContain(`gates.rules ${expected}`);
  });

  it('reads rules of gates from the file only', () => {
    const [problem = ''] = problemsOf(() =>
      load({ environment: { ...REQUIRED, FEED_SYNC_GATES_RULES: '[]' } }),
    );
    expect(problem).toContain('FEED_SYNC_GATES_RULES is not a known variable');
  });
});
