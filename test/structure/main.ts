/**
 * `npm run numbers`: prints the numbers of the structure of `src`, and the copied lines of `src` and `test`.
 *
 *     npm run numbers -- --at 08dcbf3b        # of an earlier commit, as the history keeps it
 *     npm run numbers -- --copied             # lists every copied run
 *     npm run numbers -- --times              # also the start of `status` and the time of `npm test`
 *     npm run numbers -- --times lib.test     # only of the tests in files that are named so
 */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { builtProgram } from '../support/built-program.ts';
import { projectRoot, type SourceFile, sourceFiles } from '../support/source-tree.ts';
import { type CopiedNumbers, copiedIn, LEAST_RUN } from './copied.ts';
import { LEAST_LINES_OF_A_PART, numbersOf } from './numbers.ts';
import { startTimes, testSeconds } from './times.ts';

const STARTS = 21;

const { values: options, positionals: filters } = parseArgs({
  options: { at: { type: 'string' }, copied: { type: 'boolean' }, times: { type: 'boolean' } },
  allowPositionals: true,
});

const [src, fixtures, test] = await sourcesAt(options.at);
printStructure(src, [...src, ...fixtures, ...test]);
print(`Copied lines, in runs of at least ${LEAST_RUN}:
${copied('src', copiedIn(src))}
${copied('test', copiedIn(test))}`);
if (options.times) printTimes();

/** The files of `src`, `fixtures` and `test`. */
async function sourcesAt(commit: string | undefined) {
  const folders = ['src', 'fixtures', 'test'];
  const root = commit === undefined ? projectRoot : mkdtempSync(join(tmpdir(), 'feed-sync-numbers-'));
  try {
    if (commit !== undefined) {
      const archive = execFileSync('git', ['archive', commit, ...folders], {
        cwd: projectRoot,
        maxBuffer: 1e9,
      });
      execFileSync('tar', ['-x', '-C', root], { input: archive });
    }
    return (await Promise.all(folders.map((folder) => sourceFiles(folder, root)))) as [
      readonly SourceFile[],
      readonly SourceFile[],
      readonly SourceFile[],
    ];
  } finally {
    if (commit !== undefined) rmSync(root, { recursive: true });
  }
}

function printStructure(src: readonly SourceFile[], all: readonly SourceFile[]): void {
  const { files, lines, longest, folders, parts, mutual } = numbersOf(src, all);
  const rows = folders.map(
    (each) => `  ${each.folder.padEnd(36)}${count(each.files, 5)}${count(each.lines, 8)}`,
  );
  print(`src, without comments and blank lines:

  ${'folder'.padEnd(36)}${'files'.padStart(5)}${'lines'.padStart(8)}
${rows.join('\n')}
  ${'in all'.padEnd(36)}${count(files, 5)}${count(lines, 8)}

The longest file is ${longest.path}: ${longest.lines} lines with everything.
${listed(
  `Files below ${LEAST_LINES_OF_A_PART} lines that one neighbour alone imports`,
  parts.map(({ path, importer }) => `${path}, by ${importer}`),
)}
${listed('Folders that import each other, none of which contains the other', mutual)}
`);
}

function copied(folder: string, { compared, copied, runs }: CopiedNumbers): string {
  const permille = ((1000 * copied) / compared).toFixed(1);
  const sum = `  ${folder.padEnd(6)}${count(copied, 6)} of ${compared} lines (${permille} in a thousand), ${runs.length} runs`;
  if (!options.copied) return sum;
  const each = runs.map(
    ({ path, lines, firstLine, original }) =>
      `    ${count(lines, 3)} ${path}, as in ${original}: ${firstLine}`,
  );
  return [sum, ...each].join('\n');
}

function printTimes(): void {
  const { statusMs, nodeMs } = startTimes(builtProgram(), STARTS);
  print(`
A start of \`status\` in an empty folder: ${Math.round(statusMs)} ms, where Node alone takes ${Math.round(nodeMs)} ms (medians of ${STARTS}).
`);
  const seconds = testSeconds(filters);
  const what = filters.length === 0 ? '`npm test`' : `\`npm test -- ${filters.join(' ')}\``;
  print(`${what} took ${Math.round(seconds)} s.`);
}

function count(number: number, width: number): string {
  return String(number).padStart(width);
}

function listed(what: string, items: readonly string[]): string {
  if (items.length === 0) return `${what}: none.`;
  return [`${what}: ${items.length}`, ...items.map((item) => `  ${item}`)].join('\n');
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
