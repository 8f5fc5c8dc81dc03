/** The pages of the project agree with it: links, commands, flags, scripts, settings, files and functions that they name exist. */

import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { allKeys } from '../../src/configuration/schema.ts';
import { projectRoot } from '../support/source-tree.ts';

const read = (path: string): string => readFileSync(join(projectRoot, path), 'utf8');
const pagesAt = (pattern: string): readonly string[] =>
  globSync(pattern, { cwd: projectRoot, exclude: (name) => /^(?:node_modules|dist|data)$/.test(name) });

const PAGES = pagesAt('**/*.md');
/** Of the way from an event to the rows. */
const STOPS = 12;
/** Those that speak of the program as it is; the changelog speaks of what it was, too. */
const PAGES_FOR_READERS = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'config/README.md'],
  ...pagesAt('docs/**/*.md'),
];

function withoutCode(page: string): string {
  return page.replaceAll(/^ *```[\s\S]*?^ *```/gm, '').replaceAll(/`[^`\n]*`/g, '');
}

/** Everything between backticks, and every line of a block of code. */
function codeIn(page: string): readonly string[] {
  const blocks = Array.from(page.matchAll(/^ *```[^\n]*\n([\s\S]*?)^ *```/gm), ([, block = '']) => block);
  const rest = page.replaceAll(/^ *```[\s\S]*?^ *```/gm, '');
  return [
    ...blocks.flatMap((block) => block.split('\n')),
    ...Array.from(rest.matchAll(/`([^`]+)`/g), ([, code = '']) => code.replaceAll(/\s+/g, ' ')),
  ];
}

/** As GitHub makes them of headings. */
function anchorsOf(page: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  const headings = page.replaceAll(/^ *```[\s\S]*?^ *```/gm, '').matchAll(/^#+ +(.+?) *$/gm);
  for (const [, heading = ''] of headings) {
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-');
    let anchor = slug;
    for (let count = 1; anchors.has(anchor); count++) anchor = `${slug}-${count}`;
    anchors.add(anchor);
  }
  return anchors;
}

function brokenLinks(path: string, page: string): readonly string[] {
  const links = Array.from(withoutCode(page).matchAll(/\]\(\s*([^)\s]+)\s*\)/g), ([, link = '']) => link);
  return links.filter((link) => {
    if (/^[a-z]+:/.test(link)) return false;
    const [file = '', anchor] = link.split('#');
    const target = file === '' ? path : relative(projectRoot, join(projectRoot, dirname(path), file));
    if (target !== path && !existsSync(join(projectRoot, target))) return true;
    if (anchor === undefined) return false;
    return !anchorsOf(target === path ? page : read(target)).has(anchor);
  });
}

const definitions = [
  'src/cli/program.ts',
  'src/cli/commands.ts',
  'src/cli/operator-commands.ts',
  'src/cli/past-state.ts',
  'src/configuration/schema.ts',
].map(read);
const COMMANDS = new Set(
  definitions.flatMap((code) =>
    Array.from(code.matchAll(/\bdefine\(\s*'([a-z-]+)/g), ([, name = '']) => name),
  ),
);
const OPTIONS = new Set([
  ...definitions.flatMap((code) => Array.from(code.matchAll(/'(--[a-z-]+)/g), ([, name = '']) => name)),
  ...allKeys.map((key) => `--${kebab(key.replace(/^service\.(?:contract\.)?/, ''))}`),
  ...['--help', '--version', '--json'],
]);

function kebab(key: string): string {
  return key.replaceAll('.', '-').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Commands and flags of feed-sync that there are not. */
function unknownCommands(page: string): readonly string[] {
  const lines = codeIn(page).map((code) => code.replace(/ +#.*$/, ''));
  const calls = lines.flatMap(
    (line) => line.match(/(?<=^|^ +|npx |&& )feed-sync (?:--?)?[a-z][^"'|&]*/g) ?? [],
  );
  return calls.flatMap((call) => {
    const [, command = ''] = call.split(' ');
    const flags = call.match(/(?<= )--[a-z-]+/g) ?? [];
    return [
      ...(command.startsWith('--') || COMMANDS.has(command) || command === 'help' ? [] : [command]),
      ...flags.filter((flag) => !OPTIONS.has(flag)),
    ];
  });
}

function unknownScripts(page: string): readonly string[] {
  const { scripts } = JSON.parse(read('package.json'));
  const named = codeIn(page).flatMap((code) => code.match(/(?<=npm run )[a-z:-]+/g) ?? []);
  return named.filter((name) => !Object.hasOwn(scripts, name));
}

const GROUPS = new Set(allKeys.filter((key) => key.includes('.')).map((key) => key.split('.')[0]));

function unknownSettings(page: string): readonly string[] {
  const named = codeIn(page).flatMap((code) => /^([a-z]+(?:\.[a-zA-Z]+)+)(?::|$)/.exec(code)?.[1] ?? []);
  return named.filter(
    (name) =>
      GROUPS.has(name.split('.')[0]) &&
      !/\.(?:sqlite|ts|md)$/.test(name) &&
      !allKeys.some((key) => key === name),
  );
}

/** Those of every destination, and those of PostgreSQL alone. */
const TABLES = new Set(
  [
    ...read('src/destination/catalog/tables.ts').matchAll(/^ {2}([a-z_]+): \{/gm),
    ...read('src/destination/postgres/catalog/schema.ts').matchAll(
      /`CREATE TABLE .*catalogTable\('([a-z_]+)'\)/g,
    ),
  ].map(([, name]) => name),
);

function unknownTables(page: string): readonly string[] {
  const named = Array.from(page.matchAll(/\bfeed_sync\.([a-z_]+)/g), ([, name = '']) => name);
  return named.filter((name) => !TABLES.has(name));
}

function missingFiles(page: string): readonly string[] {
  const named = codeIn(page).flatMap(
    (code) => /^(?:src|test|docs|config|fixtures)\/[\w./-]+$/.exec(code)?.[0] ?? [],
  );
  const made = read('.gitignore').split('\n');
  return named.filter((path) => !existsSync(join(projectRoot, path)) && !made.includes(`/${path}`));
}

/** "`name` of `path`", "`name` in `path`", "`name` (`path`)", and rows with a path in one cell and a name in the next. */
function missingFunctions(page: string): readonly string[] {
  const path = '`(src/[\\w./-]+\\.ts)`';
  const name = '`([a-z]\\w*)`';
  const text = page.replaceAll(/\s+/g, ' ');
  const pairs = [
    ...Array.from(text.matchAll(new RegExp(`\\| ${path} \\| ${name} \\|`, 'g')), ([, file, of]) => [
      file,
      of,
    ]),
    ...Array.from(text.matchAll(new RegExp(`${name} (?:of |in |\\()${path}`, 'g')), ([, of, file]) => [
      file,
      of,
    ]),
  ];
  return pairs
    .filter(([file = '', of = '']) => {
      if (!existsSync(join(projectRoot, file))) return true;
      return !new RegExp(`(?:\\bfunction\\*? |\\bconst |^ +(?:async )?)${of}\\b(?:<|\\(| =)`, 'm').test(
        read(file),
      );
    })
    .map(([file, of]) => `${of} in ${file}`);
}

describe('the pages', () => {
  it.each(PAGES)('%s has no relative link that leads nowhere', (path) => {
    expect(brokenLinks(path, read(path))).toEqual([]);
  });

  it.each(PAGES_FOR_READERS)(
    '%s names commands, flags, scripts, settings, tables and files that exist',
    (path) => {
      const page = read(path);
      expect(unknownCommands(page)).toEqual([]);
      expect(unknownScripts(page)).toEqual([]);
      expect(unknownSettings(page)).toEqual([]);
      expect(unknownTables(page)).toEqual([]);
      expect(missingFiles(page)).toEqual([]);
    },
  );

  it('docs/architecture.md names functions where they are defined', () => {
    const page = read('docs/architecture.md');
    expect(page.match(/^\| \d+ \| `src[^|]*` \| `\w+` \|/gm)).toHaveLength(STOPS);
    expect(missingFunctions(page)).toEqual([]);
  });

  it('the index of decisions has a row for every decision', () => {
    const index = read('docs/decisions/README.md');
    const decisions = pagesAt('docs/decisions/*.md').map((path) => path.replace('docs/decisions/', ''));
    expect(decisions.filter((name) => name !== 'README.md' && !index.includes(`](${name})`))).toEqual([]);
  });

  it('the package, the image and the help describe the program in the same words', () => {
    const { description } = JSON.parse(read('package.json'));
    expect(description).toMatch(/DuckDB.*PostgreSQL/);
    expect(read('Dockerfile')).toContain(`image.description="${description}"`);
    expect(read('src/cli/program.ts')).toContain(`DESCRIPTION = '${description}'`);
  });

  it('the changelog has the kinds of Keep a Changelog, each once and in order, at a length that is read', () => {
    const KINDS = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security'];
    const MAX_LINES = 250;
    const [, ...versions] = read('CHANGELOG.md').split(/^## /m);
    expect(versions.length).toBeGreaterThan(0);
    for (const version of versions) {
      const kinds = Array.from(version.matchAll(/^### (.*)$/gm), ([, kind = '']) => kind);
      expect(kinds).toEqual(KINDS.filter((kind) => kinds.includes(kind)));
      expect(version.split('\n').length).toBeLessThanOrEqual(MAX_LINES);
    }
  });

  it('the README names every command', () => {
    const named = codeIn(read('README.md')).flatMap((code) => code.match(/[a-z-]+/g) ?? []);
    expect([...COMMANDS].filter((command) => !named.includes(command))).toEqual([]);
  });
});

describe('the checks of the pages', () => {
  it('finds links to a file, a folder or an anchor that does not exist', () => {
    const page = '# A page\n\n[a](nowhere.md) [b](#a-page) [c](#b-page) [d](../src) [e](../README.md#no)';
    expect(brokenLinks('docs/x.md', page)).toEqual(['nowhere.md', '#b-page', '../README.md#no']);
    expect(brokenLinks('docs/x.md', '`[a](nowhere.md)` [b](https://example.com/#x)')).toEqual([]);
  });
  it('finds a command, a flag, a script, a setting, a table or a file that does not exist', () => {
    expect(
      unknownCommands('```sh\nfeed-sync syncronise --now   # all\n```\n`feed-sync once --wait 5m`'),
    ).toEqual(['syncronise', '--now']);
    expect(unknownScripts('`npm run demo` and `npm run nothing`')).toEqual(['nothing']);
    expect(unknownSettings('`http.timeout`, `http.timeOut`, `http.connections: 8`')).toEqual([
      'http.timeOut',
    ]);
    expect(unknownTables('`feed_sync.datasets` and `feed_sync.history`')).toEqual(['history']);
    expect(missingFiles('`src/main.ts` and `src/no.ts`')).toEqual(['src/no.ts']);
  });
  it('finds a function that is defined elsewhere', () => {
    expect(missingFunctions('| 1 | `src/sync/plan/plan.ts` | `catchUp` | does |')).toEqual([
      'catchUp in src/sync/plan/plan.ts',
    ]);
    expect(missingFunctions('`plan` of `src/sync/plan/plan.ts`')).toEqual([]);
  });
});
