/** Every rule of src/rules.md has a test that names it at the beginning of its title: `it('V4 W14 moves as far as it can')`. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { projectRoot, sourceFiles } from '../support/source-tree.ts';

const RULE = /^\| ([MCVWR]\d{1,2}) \|/gm;
const TITLE = /['"`]((?:[MCVWR]\d{1,2} )+)\S/g;

const rules = Array.from(
  readFileSync(join(projectRoot, 'src/rules.md'), 'utf8').matchAll(RULE),
  ([, rule = '']) => rule,
);
const tests = (await sourceFiles('test')).filter(({ path }) => path.endsWith('.test.ts'));
const named = tests
  .flatMap(({ code }) => Array.from(code.matchAll(TITLE)))
  .flatMap(([, ids = '']) => ids.trimEnd().split(' '));

it('every rule of src/rules.md has a test', () => {
  expect(rules.length).toBeGreaterThan(50);
  expect(rules.filter((rule) => !named.includes(rule))).toEqual([]);
});

it('tests name existing rules only, and no number is given twice', () => {
  expect([...new Set(named)].filter((rule) => !rules.includes(rule))).toEqual([]);
  expect(rules.length).toBe(new Set(rules).size);
});
