/** `npm run mutants`: breaks decisions of the program on purpose, one at a time, and says which test notices each. */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { Command, type CommanderError } from 'commander';
import { projectRoot } from '../support/source-tree.ts';
import { AREAS } from './catalogue.ts';
import { judge, type Verdict } from './judge.ts';
import type { Mutant } from './mutant.ts';
import { makeScratchCopy } from './scratch-copy.ts';
import { noticedBy, noticedIn, sectionOf, withSection } from './section.ts';
import { runTests, type Tools } from './tools.ts';

const PAGE = 'test/mutants/README.md';
const WRONG_USAGE = 64;
const BASELINE_LIMIT_MS = 900_000;

interface Flags {
  readonly write: boolean;
  readonly quick: boolean;
  readonly list: boolean;
}

const command = new Command('mutants')
  .description(
    'Breaks decisions of the program on purpose, one at a time, in a copy of the project, and says which test notices each.',
  )
  .argument('[words...]', 'only those that have one of the words in their name, area or file')
  .option('--list', 'name them, and run nothing', false)
  .option('--quick', 'where the expected tests do not notice, ask no others', false)
  .option('--write', `write into ${PAGE} what noticed them`, false)
  .exitOverride((error: CommanderError) => process.exit(error.exitCode === 0 ? 0 : WRONG_USAGE))
  .parse();

const { write, quick, list } = command.opts<Flags>();
const chosen = chosenBy(command.args);
if (chosen.length === 0) {
  process.stderr.write(`No broken decision has one of these words: ${command.args.join(', ')}.\n`);
  process.exit(WRONG_USAGE);
}
if (list) process.stdout.write(`${chosen.map(({ name }) => name).join('\n')}\n`);
else process.exitCode = await inACopy(chosen);

function chosenBy(words: readonly string[]): readonly Mutant[] {
  return AREAS.flatMap(({ title, mutants }) =>
    mutants.filter(({ name, file }) => {
      const said = `${title} ${name} ${file}`.toLowerCase();
      return words.length === 0 || words.some((word) => said.includes(word.toLowerCase()));
    }),
  );
}

async function inACopy(mutants: readonly Mutant[]): Promise<number> {
  const stop = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => stop.abort(new Error(`ended by ${name}`)));
  }
  const copy = await makeScratchCopy();
  process.chdir(copy.path);
  try {
    return await judgeAll(mutants, { copy, signal: stop.signal });
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    process.stderr.write('Stopped.\n');
    return 1;
  } finally {
    await copy.remove();
  }
}

async function judgeAll(mutants: readonly Mutant[], tools: Tools): Promise<number> {
  if (!(await passUnbroken(mutants, tools))) return 1;
  const verdicts = new Map<Mutant, Verdict>();
  for (const mutant of mutants) {
    const startedMs = performance.now();
    const verdict = await judge(mutant, tools, !quick);
    verdicts.set(mutant, verdict);
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    process.stdout.write(`${report(mutant, verdict)} (${seconds} s)\n`);
    if (write) await writeDown(mutant, verdict);
  }
  const of = (kind: Verdict['kind']): number =>
    [...verdicts.values()].filter((verdict) => verdict.kind === kind).length;
  process.stdout.write(`\n${of('caught')} caught, ${of('survived')} survived, ${of('unfit')} unfit.\n`);
  return of('caught') === verdicts.size ? 0 : 1;
}

/** A test that fails anyway notices nothing. */
async function passUnbroken(mutants: readonly Mutant[], tools: Tools): Promise<boolean> {
  const files = [...new Set(mutants.flatMap(({ tests }) => tests))];
  const end = await runTests(files, BASELINE_LIMIT_MS, tools, 0);
  if (end.kind === 'passed') return true;
  process.stderr.write(`With nothing broken the tests do not pass: ${JSON.stringify(end, null, 2)}\n`);
  return false;
}

function report({ name }: Mutant, verdict: Verdict): string {
  switch (verdict.kind) {
    case 'caught':
      return `caught    ${name}\n          ${verdict.isExpected ? '' : 'by another than expected: '}${verdict.file}: ${verdict.test}`;
    case 'survived':
      return `SURVIVED  ${name}`;
    case 'unfit':
      return `UNFIT     ${name}: ${verdict.why}`;
  }
}

/** At once, so that what was seen is not lost when this is ended. */
async function writeDown({ name }: Mutant, verdict: Verdict): Promise<void> {
  const path = join(projectRoot, PAGE);
  const page = await readFile(path, 'utf8');
  const noticed = new Map(noticedIn(page));
  if (verdict.kind === 'caught') noticed.set(name, noticedBy(verdict.file, verdict.test));
  else noticed.delete(name);
  await writeFile(path, withSection(page, sectionOf(AREAS, noticed)));
}
