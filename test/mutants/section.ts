/** The section of the README of this folder that lists the broken decisions and what noticed each. Pure. */

import type { Area, Mutant } from './mutant.ts';

const HEADING = '## What noticed each';
const INTRODUCTION =
  'P1 to P10 are the promises, in the order of their table on the [page of the tests](../README.md).';
const HEAD = ['| what is broken | what is lost | noticed by |', '|---|---|---|'];
const MAX_TEST_NAME = 150;

/** By the names of the broken decisions. */
export type Noticed = ReadonlyMap<string, string>;

export function noticedBy(file: string, test: string): string {
  const shown = test.length > MAX_TEST_NAME ? `${test.slice(0, MAX_TEST_NAME - 1)}…` : test;
  return `\`${file.replace(/\.test\.ts$/, '')}\`: ${inCell(shown)}`;
}

export function sectionOf(areas: readonly Area[], noticed: Noticed): string {
  const parts = areas.map(({ title, mutants }) =>
    [`### ${title}`, '', ...HEAD, ...mutants.map((mutant) => rowOf(mutant, noticed))].join('\n'),
  );
  return `${[HEADING, INTRODUCTION, ...parts].join('\n\n')}\n`;
}

function rowOf({ name, breaks }: Mutant, noticed: Noticed): string {
  return `| ${name} | ${breaks.join(', ')} | ${noticed.get(name) ?? ''} |`;
}

/** What the page says now. */
export function noticedIn(page: string): Noticed {
  const rows = sectionIn(page).matchAll(/^\| ((?:[^|\\]|\\.)+) \| [^|]+ \| (`(?:[^|\\]|\\.)+) \|$/gm);
  return new Map(Array.from(rows, ([, name = '', by = '']) => [name, by]));
}

/** Empty where the page has none. */
export function sectionIn(page: string): string {
  const start = page.indexOf(HEADING);
  return start === -1 ? '' : page.slice(start, endOf(page, start));
}

export function withSection(page: string, section: string): string {
  const start = page.indexOf(HEADING);
  if (start === -1) return `${page.trimEnd()}\n\n${section}`;
  return `${page.slice(0, start)}${section}${page.slice(endOf(page, start))}`;
}

/** Where the next section begins. The empty line before it is no part of this one. */
function endOf(page: string, start: number): number {
  const next = page.indexOf('\n\n## ', start);
  return next === -1 ? page.length : next + 1;
}

function inCell(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll('\\', '\\\\').replaceAll('|', '\\|').replaceAll('<', '&lt;');
}
