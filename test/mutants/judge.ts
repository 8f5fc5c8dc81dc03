/** Whether a test notices that a decision is broken: first those that are expected to, then all that could. */

import { reachableFrom, sourceFiles } from '../support/source-tree.ts';
import type { Mutant } from './mutant.ts';
import { compilerSays, runTests, type TestsEnd, type Tools } from './tools.ts';

const EXPECTED_LIMIT_MS = 180_000;
const OTHERS_LIMIT_MS = 600_000;

export type Verdict =
  | { readonly kind: 'caught'; readonly file: string; readonly test: string; readonly isExpected: boolean }
  | { readonly kind: 'survived' }
  /** The catalogue is wrong about it: its text stands in the file no more, or it does not compile. */
  | { readonly kind: 'unfit'; readonly why: string };

export async function judge(mutant: Mutant, tools: Tools, isThorough: boolean): Promise<Verdict> {
  const verdict = await tools.copy.whileBroken(mutant, () => judgeBroken(mutant, tools, isThorough));
  if (verdict === 'stale') return { kind: 'unfit', why: `its text does not stand once in ${mutant.file}` };
  return verdict;
}

async function judgeBroken(mutant: Mutant, tools: Tools, isThorough: boolean): Promise<Verdict> {
  const said = await compilerSays(tools);
  if (said !== null) return { kind: 'unfit', why: `it does not compile: ${said}` };
  const noticed = caughtBy(await runTests(mutant.tests, EXPECTED_LIMIT_MS, tools), mutant.tests, true);
  if (noticed !== null || !isThorough) return noticed ?? { kind: 'survived' };
  const others = await otherTests(mutant);
  return caughtBy(await runTests(others, OTHERS_LIMIT_MS, tools), others, false) ?? { kind: 'survived' };
}

/** Null: nobody noticed. */
function caughtBy(end: TestsEnd, files: readonly string[], isExpected: boolean): Verdict | null {
  const whole = files.length === 1 ? (files[0] ?? '') : `one of ${files.length} files`;
  switch (end.kind) {
    case 'passed':
      return null;
    case 'failed':
      return { kind: 'caught', file: end.file, test: end.test ?? 'the whole file', isExpected };
    case 'crashed':
      return { kind: 'caught', file: whole, test: 'an error that nobody handles', isExpected };
    case 'late':
      return { kind: 'caught', file: whole, test: 'does not end', isExpected };
  }
}

/** The fast test files that reach the file by imports, without those that were asked already. */
async function otherTests({ file, tests }: Mutant): Promise<readonly string[]> {
  const files = [
    ...(await sourceFiles('src')),
    ...(await sourceFiles('test')),
    ...(await sourceFiles('fixtures')),
  ];
  return files
    .map(({ path }) => path)
    .filter((path) => /^test\/(?!mutants\/).*\.test\.ts$/.test(path) && !path.endsWith('.slow.test.ts'))
    .filter((path) => reachableFrom([path], files).has(file))
    .map((path) => path.slice('test/'.length))
    .filter((path) => !tests.includes(path));
}
