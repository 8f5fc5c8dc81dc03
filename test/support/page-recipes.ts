/** The recipes of a page: its headings of the third level, each with the blocks of code below it, in their order. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from './source-tree.ts';

/** A fenced block. */
export interface Block {
  readonly language: string;
  readonly text: string;
  /** Where it begins in the page. */
  readonly line: number;
  /** What the comment in the line above it says of it: `not run: …`, `ends with 77`, `asks`. */
  readonly mark: string | null;
}

export interface Recipe {
  readonly heading: string;
  readonly blocks: readonly Block[];
}

export function recipesOf(path: string): readonly Recipe[] {
  const recipes: { heading: string; blocks: Block[] }[] = [];
  const lines = readFileSync(join(projectRoot, path), 'utf8').split('\n');
  for (let index = 0; index < lines.length; index += 1) {
    const [, heading] = /^### (.*)$/.exec(lines[index] ?? '') ?? [];
    if (heading !== undefined) recipes.push({ heading, blocks: [] });
    const [, language] = /^```(\w*)$/.exec(lines[index] ?? '') ?? [];
    if (language === undefined) continue;
    const end = lines.indexOf('```', index + 1);
    const [, mark = null] = /^<!-- (.*) -->$/.exec(lines[index - 1] ?? '') ?? [];
    const text = lines.slice(index + 1, end).join('\n');
    recipes.at(-1)?.blocks.push({ language, text, line: index + 1, mark });
    index = end;
  }
  return recipes;
}
