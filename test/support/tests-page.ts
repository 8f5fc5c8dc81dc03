/**
 * What test/README.md says of the tests, and what of it is not true. Pure.
 *
 * On the page a test file is named by its path from the folder test, without `.test.ts`: `unit/coalesce-events`, `contract/run.slow`; all
 * those of a folder by the folder: `simulation`. The name of a test, or a part of it, follows its file in quotes.
 */

export interface TestFile {
  /** As on the page: `contract/run.slow`. */
  readonly name: string;
  readonly titles: readonly string[];
}

export interface PageInput {
  readonly page: string;
  readonly tests: readonly TestFile[];
  /** Every file and folder below test, from there: `unit`, `unit/coalesce-events.test.ts`. */
  readonly paths: readonly string[];
  /** The headings of the tables of invariants on the page. */
  readonly tables: readonly string[];
}

interface Reference {
  readonly file: string;
  readonly titles: readonly string[];
}

const LAST_FAULT = 88;
export const FAULTS: readonly string[] = Array.from(
  { length: LAST_FAULT },
  (_, index) => `F${String(index + 1).padStart(2, '0')}`,
);
const PROMISES = 'Which promise is tested where';
/** Folders whose tests may be named all at once. */
const WHOLE = 'crash|properties|security|simulation';
const REFERENCE = new RegExp(`\`([a-z]+/[\\w./-]+|${WHOLE})\`((?:,? "[^"]+")*)`, 'g');

/**
 * What is not true of the page of removed tests, in words: in each row of its tables the last cell names files that are there.
 * `paths`: from the folder test.
 */
export function untruthsOfRemovals(page: string, paths: readonly string[]): readonly string[] {
  const rows = page.split('\n').filter((line) => /^\| (?!test of |decision of |file of |folder )/.test(line));
  return rows.flatMap((row) => {
    const named = namedPaths(lastCell(row));
    const missing = named.filter((path) => !isThere(path, paths));
    return [
      ...(named.length === 0 ? [`no file covers “${row.slice(2, 60)}”`] : []),
      ...missing.map((path) => `\`${path}\` is not there`),
    ];
  });
}

/** The name of a test file on the page. */
export function nameOnPage(path: string): string {
  return path.replace(/^test\//, '').replace(/\.test\.ts$/, '');
}

/** What tests and their groups are called; where a title is a row of a table, what begins with the numbers of rules or faults. */
export function titlesIn(code: string): readonly string[] {
  const called = code.matchAll(
    /(?:\b(?:it|describe)(?:\.(?:only|for|each|runIf|skipIf))?(?:<[^()]*>)?\(|\)\()\s*(?:(['"`])((?:\\.|(?!\1)[\s\S])*)\1)/g,
  );
  const listed = code.matchAll(/(['"`])((?:[MCVWR]\d{1,2} )*(?:F\d\d )+\S(?:\\.|(?!\1)[\s\S])*)\1/g);
  return [...called, ...listed].map(([, , title = '']) => title.replaceAll("\\'", "'"));
}

/** What is not true of the page, in words; nothing where it is all true. */
export function untruths(input: PageInput): readonly string[] {
  const faultRows = rowsOf(input.page, /^F\d\d$/);
  return [
    ...FAULTS.flatMap((fault) => untruthsOfFault(fault, faultRows.get(fault) ?? [], input.tests)),
    ...[...faultRows.keys()]
      .filter((fault) => !FAULTS.includes(fault))
      .map((fault) => `${fault} is no fault`),
    ...untruthsOfRows(section(input.page, PROMISES), input.tests),
    ...input.tables.flatMap((heading) => untruthsOfTable(heading, input)),
    ...namedPaths(input.page)
      .filter((path) => !isThere(path, input.paths))
      .map((path) => `\`${path}\` is not there`),
  ];
}

function untruthsOfFault(
  fault: string,
  rows: readonly string[],
  tests: readonly TestFile[],
): readonly string[] {
  if (rows.length !== 1) return [`${fault} has ${rows.length} rows`];
  const named = referencesIn(lastCell(rows[0] ?? '')).map(({ file }) => file);
  const carriers = tests.filter(({ titles }) => titles.some((title) => carries(title, fault)));
  const missing = carriers.filter(({ name }) => !named.some((file) => covers(file, name)));
  const idle = named.filter((file) => !carriers.some(({ name }) => covers(file, name)));
  return [
    ...(named.length === 0 ? [`${fault} names no test`] : []),
    ...missing.map(({ name }) => `${fault} is in a test of \`${name}\`, which its row does not name`),
    ...idle.map((file) => `${fault} is in no test of \`${file}\``),
  ];
}

/** Each row names a test by its file and words of its title, and every test that it names is there. */
function untruthsOfRows(rows: readonly string[], tests: readonly TestFile[]): readonly string[] {
  return rows.flatMap((row) => {
    const what = row.split(' | ')[0]?.replace(/^\| /, '') ?? row;
    const references = referencesIn(row);
    const named = references.filter(({ titles }) => titles.length > 0);
    return [
      ...(named.length === 0 ? [`“${what}” names no test`] : []),
      ...references.flatMap(({ file, titles }) =>
        titles
          .filter((words) => !hasTitle(file, words, tests))
          .map((words) => `“${what}” names "${words}", which is no test of \`${file}\``),
      ),
    ];
  });
}

function untruthsOfTable(heading: string, { page, tests }: PageInput): readonly string[] {
  const rows = section(page, heading);
  return rows.length === 0 ? [`“${heading}” has no rows`] : untruthsOfRows(rows, tests);
}

function rowsOf(page: string, first: RegExp): ReadonlyMap<string, readonly string[]> {
  const rows = new Map<string, readonly string[]>();
  for (const line of page.split('\n')) {
    const cell = line.match(/^\| (\S+) \|/)?.[1] ?? '';
    if (first.test(cell)) rows.set(cell, [...(rows.get(cell) ?? []), line]);
  }
  return rows;
}

/** The rows of the table below a heading, without its head. */
function section(page: string, heading: string): readonly string[] {
  const lines = page.split('\n');
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading);
  if (start === -1) return [];
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => /^#+ /.test(line));
  const rows = rest.slice(0, end === -1 ? undefined : end).filter((line) => line.startsWith('| '));
  return rows.slice(1);
}

function lastCell(row: string): string {
  return row.split(' | ').at(-1) ?? '';
}

function referencesIn(row: string): readonly Reference[] {
  return Array.from(row.matchAll(REFERENCE), ([, file = '', quoted = '']) => ({
    file,
    titles: Array.from(quoted.matchAll(/"([^"]+)"/g), ([, words = '']) => words),
  }));
}

function hasTitle(file: string, words: string, tests: readonly TestFile[]): boolean {
  return tests.some(
    ({ name, titles }) => covers(file, name) && titles.some((title) => title.includes(words)),
  );
}

function carries(title: string, fault: string): boolean {
  return new RegExp(`\\b${fault}\\b`).test(title);
}

/** Whether a file or folder that is named is this test file or has it. */
function covers(file: string, name: string): boolean {
  return name === file || name.startsWith(`${file}/`);
}

/** What looks like a path below test. */
function namedPaths(page: string): readonly string[] {
  const folders =
    'unit|contract|simulation|exploration|crash|properties|security|mutants|support|bench|image';
  return Array.from(
    page.matchAll(new RegExp(`\`((?:${folders})(?:/[\\w./*-]+)?)\``, 'g')),
    ([, path = '']) => path,
  );
}

function isThere(named: string, paths: readonly string[]): boolean {
  const pattern = new RegExp(
    `^${named.replace(/\/$/, '').replaceAll('.', '\\.').replaceAll('*', '.*')}(?:\\.test\\.ts)?$`,
  );
  return paths.some((path) => pattern.test(path));
}
