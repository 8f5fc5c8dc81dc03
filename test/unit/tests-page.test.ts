/** test/README.md is true: faults, promises and invariants are tested where it says, and what it names is there. */

import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectRoot, sourceFiles } from '../support/source-tree.ts';
import {
  FAULTS,
  nameOnPage,
  type PageInput,
  titlesIn,
  untruths,
  untruthsOfRemovals,
} from '../support/tests-page.ts';

const TABLES = [
  'Catching up',
  'The daemon',
  'The checkpoint',
  'The write session of the mirror',
  'The published copy',
  'The command after commits',
];

const read = (path: string): string => readFileSync(join(projectRoot, path), 'utf8');
const testPaths = (): readonly string[] =>
  globSync('test/**', { cwd: projectRoot }).map((path) => path.replace(/^test\//, ''));

describe('test/README.md', () => {
  it('names the tests of every fault, promise and invariant, and only files that exist', async () => {
    const files = (await sourceFiles('test')).filter(({ path }) => path.endsWith('.test.ts'));
    const found = untruths({
      page: read('test/README.md'),
      tests: files.map(({ path, code }) => ({ name: nameOnPage(path), titles: titlesIn(code) })),
      paths: testPaths(),
      tables: TABLES,
    });
    expect(found).toEqual([]);
  });
});

describe('test/removed-tests.md', () => {
  it('names an existing file that covers each removed test', () => {
    expect(untruthsOfRemovals(read('test/removed-tests.md'), testPaths())).toEqual([]);
  });

  it('accepts a missing file only as the removed one', () => {
    const head = '| test of then | why | covered now by |\n|---|---|---|\n';
    const rows = '| `unit/gone` "a" | it went | `unit/now` |\n| `unit/now` "b" | it went | `unit/gone` |\n';
    const found = untruthsOfRemovals(`${head}${rows}| "c" | it went | nothing |`, ['unit/now.test.ts']);
    expect(found).toEqual(['`unit/gone` is not there', 'no file covers “"c" | it went | nothing |”']);
  });
});

describe('untruths', () => {
  // Without words after them, so that they are not taken for the fault numbers of tests.
  const [ONE, NONE] = ['F07', 'F99'] as const;
  const LAST = String(FAULTS.at(-1));
  const row = (fault: string): string => `| ${fault} | it breaks | it is mended | \`unit/coalesce-events\` |`;
  const PROMISE = '| nothing is lost | `unit/coalesce-events` "keeps all" |';
  const POINT = '| One writer commits | `unit/coalesce-events` "keeps all", `crash` |';
  const lines = [...FAULTS.map(row), '## Which promise is tested where', '| promise | tests |', PROMISE];
  const TRUE: PageInput = {
    page: [...lines, '### The daemon', '| invariant | tests |', POINT, '## More', '`support/page.ts`'].join(
      '\n',
    ),
    tests: [{ name: 'unit/coalesce-events', titles: [`${FAULTS.join(' ')} all of them`, 'keeps all'] }],
    paths: ['crash', 'unit', 'unit/coalesce-events.test.ts', 'support/page.ts'],
    tables: ['The daemon'],
  };
  const without = (text: string, instead = ''): Partial<PageInput> => ({
    page: TRUE.page.replace(text, () => instead),
  });

  it('finds nothing on a page that agrees with the tests', () => expect(untruths(TRUE)).toEqual([]));

  const other = { name: 'unit/other', titles: ['keeps it, too (F07)'] };
  it.each<[string, Partial<PageInput>, string]>([
    ['a fault without a row', without(row(ONE)), `${ONE} has 0 rows`],
    ['a fault with two', without(row(ONE), `${row(ONE)}\n${row(ONE)}`), `${ONE} has 2 rows`],
    ['a number of no fault', without(row(ONE), `${row(ONE)}\n${row(NONE)}`), `${NONE} is no fault`],
    ['a fault that names no test', without(row(ONE), '| F07 | it breaks | |'), `${ONE} names no test`],
    [
      'a test that its row does not name',
      { tests: [...TRUE.tests, other] },
      `${ONE} is in a test of \`unit/other\`, which its row does not name`,
    ],
    [
      'a file that has no test of the fault',
      {
        tests: [
          { name: 'unit/coalesce-events', titles: [`${FAULTS.slice(0, -1).join(' ')} but one`, 'keeps all'] },
        ],
      },
      `${LAST} is in no test of \`unit/coalesce-events\``,
    ],
    ['a promise without a test', without('"keeps all" |\n'), '“nothing is lost” names no test'],
    [
      'a promise with a test that is not there',
      without('"keeps all" |\n', '"keeps some" |\n'),
      '“nothing is lost” names "keeps some", which is no test of `unit/coalesce-events`',
    ],
    [
      'an invariant without a test',
      without(POINT, '| One writer commits | |'),
      '“One writer commits” names no test',
    ],
    ['a missing table', without(POINT), '“The daemon” has no rows'],
    ['a missing file', { paths: ['unit', 'unit/coalesce-events.test.ts'] }, '`support/page.ts` is not there'],
  ])('finds %s', (_, lie, said) => {
    expect(untruths({ ...TRUE, ...lie })).toContain(said);
  });

  it('finds titles in every form of a test', () => {
    // Put together, so that no number here is taken for that of a test.
    const [one, two, three, four] = ['01', '02', '03', '04'].map((number) => `F${number}`);
    const code = [
      `it('none', () => {`,
      `describe.skipIf(!there)(\n  "${one}'s",`,
      `it.each<[string, number]>([['${two} of a row', 1]])('%s', () => {});`,
      `it.for(list)('it (${three})', () => {});`,
      `['V1 ${four} too', 4], call('not this one')`,
    ].join('\n');
    const titles = ['none', `${one}'s`, `${two} of a row`, '%s', `it (${three})`, `V1 ${four} too`];
    expect(new Set(titlesIn(code))).toEqual(new Set(titles));
  });
});
