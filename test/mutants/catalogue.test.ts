/** The catalogue of broken decisions is true: each can still be broken, and the page lists them all. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { projectRoot } from '../support/source-tree.ts';
import { AREAS } from './catalogue.ts';
import { broken, occurrences } from './mutant.ts';
import { noticedIn, sectionIn, sectionOf, withSection } from './section.ts';

const LEAST_OF_EACH = 3;

const mutants = AREAS.flatMap((area) => area.mutants);
const page = readFileSync(join(projectRoot, 'test/mutants/README.md'), 'utf8');
const read = (path: string): string => readFileSync(join(projectRoot, path), 'utf8');

it('breaks for each mutant a text that its file contains exactly once', () => {
  const wrong = mutants.filter((mutant) => {
    const content = read(mutant.file);
    return occurrences(mutant.text, content) !== 1 || broken(mutant, content) === content;
  });
  expect(wrong.map(({ name, file }) => `${file}: ${name}`)).toEqual([]);
});

it('names for each mutant only test files that exist', () => {
  const missing = mutants
    .flatMap(({ tests }) => tests)
    .filter((test) => !existsSync(join(projectRoot, 'test', test)));
  expect(missing).toEqual([]);
  expect(mutants.filter(({ tests }) => tests.length === 0)).toEqual([]);
});

it('gives each mutant a unique name without a character that breaks a table', () => {
  const names = mutants.map(({ name }) => name);
  expect(names.filter((name, index) => names.indexOf(name) !== index || name.includes('|'))).toEqual([]);
});

it('attacks every promise and group of rules at least three times, by numbers that exist', () => {
  const rules = Array.from(read('src/rules.md').matchAll(/^\| ([MCVWR]\d+) \|/gm), ([, rule = '']) => rule);
  const promises = ['P1', 'P2', 'P3', 'P4', 'P5', 'P6', 'P7', 'P8', 'P9', 'P10'];
  const attacked = mutants.flatMap(({ breaks }) => breaks);
  const numbered = attacked.filter((one) => /^[MCVWRP]\d+$/.test(one));
  expect(numbered.filter((one) => !rules.includes(one) && !promises.includes(one))).toEqual([]);
  const seldom = [...promises, 'M', 'C', 'V', 'W', 'R'].filter(
    (part) =>
      numbered.filter((one) => one === part || one.replace(/\d+$/, '') === part).length < LEAST_OF_EACH,
  );
  expect(seldom).toEqual([]);
});

it('lists every mutant on its page, with the test that noticed', () => {
  const noticed = noticedIn(page);
  expect(mutants.map(({ name }) => name).filter((name) => !noticed.has(name))).toEqual([]);
  expect(sectionIn(page)).toBe(sectionOf(AREAS, noticed));
});

it('puts a section in its place, and keeps the text after it', () => {
  const section = sectionOf([], new Map());
  const pageWith = withSection('# Page\n\nFirst.\n', section);
  expect(sectionIn(pageWith)).toBe(section);
  const followed = `${pageWith}\n## Last\n\nText.\n`;
  expect(sectionIn(followed)).toBe(section);
  expect(withSection(followed, section)).toBe(followed);
});
