/** `npm run numbers`: prints the numbers of the structure of `src`. */

import process from 'node:process';
import { sourceFiles } from '../support/source-tree.ts';
import { LEAST_LINES_OF_A_PART, numbersOf } from './numbers.ts';

const src = await sourceFiles('src');
const all = [...src, ...(await sourceFiles('fixtures')), ...(await sourceFiles('test'))];
const { files, lines, longest, folders, parts, mutual } = numbersOf(src, all);

const rows = folders.map(
  (each) => `  ${each.folder.padEnd(36)}${count(each.files, 5)}${count(each.lines, 8)}`,
);
process.stdout.write(`src, without comments and blank lines:

  ${'folder'.padEnd(36)}${'files'.padStart(5)}${'lines'.padStart(8)}
${rows.join('\n')}
  ${'in all'.padEnd(36)}${count(files, 5)}${count(lines, 8)}

The longest file is ${longest.path}: ${longest.lines} lines with everything.
${listed(
  `Files below ${LEAST_LINES_OF_A_PART} lines that one neighbour alone imports`,
  parts.map(({ path, importer }) => `${path}, by ${importer}`),
)}
${listed('Folders that import each other', mutual)}
`);

function count(number: number, width: number): string {
  return String(number).padStart(width);
}

function listed(what: string, items: readonly string[]): string {
  if (items.length === 0) return `${what}: none.`;
  return [`${what}: ${items.length}`, ...items.map((item) => `  ${item}`)].join('\n');
}
