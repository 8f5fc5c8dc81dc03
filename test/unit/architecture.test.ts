/**
 * The structure of the project, checked: floors, sizes, ambient effects, durable effects, dead files. Each check is a
 * function from a file to its violations, and is itself shown a file that breaks it.
 */

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { filesInRings, mutualFolders } from '../structure/numbers.ts';
import { durableEffects } from '../support/durable-names.ts';
import {
  projectRoot,
  reachableFrom,
  type SourceFile,
  sourceFile,
  sourceFiles,
} from '../support/source-tree.ts';

const MAX_LINE_LENGTH = 140;
const MAX_FILE_LINES = 500;

const src = await sourceFiles('src');
const fixtures = await sourceFiles('fixtures');
const tests = await sourceFiles('test');
const everything = [...src, ...fixtures, ...tests];

/** From the ground up. A file imports its own folder and lower floors only. */
const FLOORS: readonly (readonly string[])[] = [
  ['lib'],
  ['model'],
  ['configuration', 'feed', 'checkpoint'],
  ['staging'],
  ['destination'],
  ['sync', 'post-commit'],
  ['reporting'],
  ['daemon'],
  ['cli'],
  ['main.ts'],
];

const PORTS = [
  'src/feed/feed.ts',
  'src/destination/destination.ts',
  'src/checkpoint/checkpoint.ts',
  'src/checkpoint/requests.ts',
];

function floorOf(path: string): number {
  const folder = path.split('/')[1] ?? '';
  const floor = FLOORS.findIndex((folders) => folders.includes(folder));
  if (floor === -1) throw new Error(`${path} stands on no floor`);
  return floor;
}

function importsFromAbove(file: SourceFile): readonly string[] {
  const folder = file.path.split('/')[1];
  return file.imports.filter((imported) => {
    if (!imported.startsWith('src/')) return true;
    return imported.split('/')[1] !== folder && floorOf(imported) >= floorOf(file.path);
  });
}

function driversInSync(file: SourceFile): readonly string[] {
  const isPort = (imported: string): boolean => PORTS.includes(imported);
  const isOfDriver = (imported: string): boolean =>
    /^src\/(?:checkpoint|destination|feed|staging)\//.test(imported);
  return file.imports.filter((imported) => isOfDriver(imported) && !isPort(imported));
}

/** What reaches out of the process without being passed in, and the only files that may. */
const AMBIENT: readonly { readonly what: RegExp; readonly allowed: readonly RegExp[] }[] = [
  { what: /\bDate\.now\(|\bnew Date\(\)|\bperformance\./, allowed: [/^src\/lib\/clock\.ts$/] },
  {
    what: /\bset(?:Timeout|Interval|Immediate)\(|node:timers/,
    allowed: [/^src\/lib\/clock\.ts$/, /^src\/feed\/http\//, /^src\/feed\/download\//],
  },
  {
    what: /\bMath\.random\(|\brandom(?:UUID|Bytes|Int)\b/,
    // The names of temporary files, which nobody may foresee.
    allowed: [/^src\/lib\/backoff\.ts$/, /^src\/lib\/files\.ts$/],
  },
  // One deadline, and one count of the free bytes.
  { what: /\bAbortSignal\.timeout\(/, allowed: [/^src\/lib\/clock\.ts$/] },
  { what: /\bstatfs(?:Sync)?\b|\bbavail\b/, allowed: [/^src\/lib\/files\.ts$/] },
  // Only by its id can a group of processes be ended.
  {
    what: /\bprocess\b\.|node:process|node:os\b/,
    // The two scripts that a process begins with.
    allowed: [
      /^src\/main\.ts$/,
      /^src\/destination\/duckdb\/damage\/examine-child\.ts$/,
      /^src\/lib\/run-program\.ts$/,
    ],
  },
  {
    what: /\bfetch\(|'undici'|'node:(?:net|http|https|http2|tls|dns|dgram)(?:\/promises)?'/,
    // A named pipe is read by the event loop.
    allowed: [
      /^src\/feed\/http\//,
      /^src\/feed\/download\//,
      /^src\/daemon\/server\//,
      /^src\/destination\/postgres\/copy-rows\.ts$/,
    ],
  },
  { what: /node:child_process/, allowed: [/^src\/lib\/run-program\.ts$/] },
  // Only the digests of large files: threads that share more are hard to follow.
  { what: /node:worker_threads/, allowed: [/^src\/feed\/download\/digest-(?:threads|worker)\.ts$/] },
  { what: /\bconsole\./, allowed: [] },
];

function ambientCalls(file: SourceFile): readonly string[] {
  return AMBIENT.filter(({ allowed }) => !allowed.some((pattern) => pattern.test(file.path))).flatMap(
    ({ what }) => what.exec(file.code)?.[0] ?? [],
  );
}

const SQL =
  /[`']\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE (?:TABLE|SCHEMA)|ATTACH|PRAGMA|BEGIN|COMMIT)\s/;

function sqlOutsideItsFolders(file: SourceFile): readonly string[] {
  const allowed = /^src\/(?:checkpoint|destination\/[a-z]+|staging)\//.test(file.path);
  return allowed ? [] : (SQL.exec(file.code) ?? []);
}

const MUTATING_FILE_CALLS =
  /\b(?:writeFile|appendFile|rename|rm|rmdir|unlink|mkdir|mkdtemp|copyFile|cp|truncate|symlink|link|chmod|chown|createWriteStream)(?:Sync)?\b[^;]*from 'node:fs(?:\/promises)?'|\bawait open\((?![^)]*, (?:'r'|constants\.O_RDONLY \| constants\.O_NONBLOCK)\))/;

function fileChangesOutsideFiles(file: SourceFile): readonly string[] {
  return file.path === 'src/lib/files.ts' ? [] : (MUTATING_FILE_CALLS.exec(file.code) ?? []);
}

function tooLong(file: SourceFile): readonly string[] {
  const long = file.lines.flatMap((line, index) =>
    line.length > MAX_LINE_LENGTH ? [`line ${index + 1}: ${line.length} characters`] : [],
  );
  return file.lines.length > MAX_FILE_LINES ? [...long, `${file.lines.length} lines`] : long;
}

/** Violations by file, ready to be read in a failing test. */
function violations(
  files: readonly SourceFile[],
  check: (file: SourceFile) => readonly string[],
): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    files.map((file) => [file.path, check(file)] as const).filter(([, found]) => found.length > 0),
  );
}

describe('floors', () => {
  it('a file imports its own folder and lower floors only', () => {
    expect(violations(src, importsFromAbove)).toEqual({});
  });
  it('sync imports the ports, and never a driver', () => {
    const sync = src.filter(({ path }) => path.startsWith('src/sync/'));
    expect(violations(sync, driversInSync)).toEqual({});
  });
  it('no two folders import each other unless one is inside the other', () => {
    expect(mutualFolders(src)).toEqual([]);
    const there = sourceFile('src/feed/wire/x.ts', "import { a } from '../http/y.ts';");
    const back = sourceFile('src/feed/http/y.ts', "import { b } from '../wire/x.ts';");
    expect(mutualFolders([there, back])).toEqual(['src/feed/http and src/feed/wire']);
    const port = sourceFile('src/feed/feed.ts', "import { b } from './wire/x.ts';");
    expect(
      mutualFolders([port, sourceFile('src/feed/wire/x.ts', "import { a } from '../feed.ts';")]),
    ).toEqual([]);
  });
  it('no files load each other in a cycle', () => {
    expect(filesInRings(src)).toEqual([]);
    const ring = [
      sourceFile('src/feed/a.ts', "import { b } from './b.ts';"),
      sourceFile('src/feed/b.ts', "import {\n  type B,\n  c,\n} from './c.ts';"),
      sourceFile('src/feed/c.ts', "export { a } from './a.ts';"),
      sourceFile('src/feed/d.ts', "import { a } from './a.ts';"),
    ];
    expect(filesInRings(ring)).toEqual(['src/feed/a.ts', 'src/feed/b.ts', 'src/feed/c.ts']);
    const typesAndLater = [
      sourceFile('src/feed/a.ts', "import { b } from './b.ts';"),
      sourceFile('src/feed/b.ts', "import { type A } from './a.ts';\nimport type { C } from './c.ts';"),
      sourceFile('src/feed/c.ts', "import('./a.ts');\nimport { b } from './b.ts';"),
    ];
    expect(filesInRings(typesAndLater)).toEqual([]);
  });
  it('the fixture feed shares no code with the program', () => {
    const shared = (file: SourceFile): readonly string[] =>
      file.imports.filter((path) => path.startsWith('src/'));
    expect(violations(fixtures, shared)).toEqual({});
  });
  it('the checks of imports see a violation', () => {
    const upward = sourceFile('src/model/x.ts', "import { a } from '../sync/plan.ts';");
    expect(importsFromAbove(upward)).toEqual(['src/sync/plan.ts']);
    const driver = sourceFile('src/sync/x.ts', "import { a } from '../feed/http/client.ts';");
    expect(driversInSync(driver)).toEqual(['src/feed/http/client.ts']);
  });
});

describe('sizes', () => {
  it(`no line has more than ${MAX_LINE_LENGTH} characters, no file more than ${MAX_FILE_LINES} lines`, () => {
    expect(violations([...src, ...fixtures], tooLong)).toEqual({});
  });
  it('no function is longer than a screen', () => {
    const rule = '--only=complexity/noExcessiveLinesPerFunction';
    const lint = spawnSync(join(projectRoot, 'node_modules/.bin/biome'), ['lint', rule, 'src', 'fixtures'], {
      cwd: projectRoot,
      encoding: 'utf8',
    });
    expect(`${lint.stdout}${lint.stderr}`).toMatch(/Checked \d{2,} files/);
    expect(lint.status, `${lint.stdout}${lint.stderr}`).toBe(0);
  });
  it('the check of sizes sees a violation', () => {
    const wide = sourceFile(
      'src/lib/x.ts',
      `${'x'.repeat(MAX_LINE_LENGTH + 1)}\n${'\n'.repeat(MAX_FILE_LINES)}`,
    );
    expect(tooLong(wide)).toEqual(['line 1: 141 characters', `${MAX_FILE_LINES + 2} lines`]);
  });
});

describe('effects', () => {
  it('clock, randomness, environment and network are passed in', () => {
    expect(violations(src, ambientCalls)).toEqual({});
  });
  it('SQL stands in the folders of the databases only', () => {
    expect(violations(src, sqlOutsideItsFolders)).toEqual({});
  });
  it('files are changed through lib/files.ts only, which names every durable effect', () => {
    expect(violations(src, fileChangesOutsideFiles)).toEqual({});
  });
  it('the checks of effects see a violation', () => {
    expect(ambientCalls(sourceFile('src/sync/x.ts', 'const a = Date.now();'))).toEqual(['Date.now(']);
    expect(ambientCalls(sourceFile('src/sync/x.ts', '// Date.now()'))).toEqual([]);
    expect(ambientCalls(sourceFile('src/sync/x.ts', 'AbortSignal.timeout(1)'))).toHaveLength(1);
    expect(ambientCalls(sourceFile('src/sync/x.ts', 'await statfs(folder)'))).toHaveLength(1);
    expect(sqlOutsideItsFolders(sourceFile('src/sync/x.ts', "run('COMMIT ')"))).toHaveLength(1);
    const renames = "import { readFile, rename } from 'node:fs/promises';";
    expect(fileChangesOutsideFiles(sourceFile('src/sync/x.ts', renames))).toHaveLength(1);
  });
});

describe('durable effects', () => {
  const names = durableEffects(src);
  it('durable effects are named, each name once, after the folder they stand in', () => {
    expect(names.length).toBeGreaterThan(5);
    const twice = names.filter(
      ({ name }, index) => names.findIndex((other) => other.name === name) !== index,
    );
    expect(twice).toEqual([]);
    expect(names.filter(({ path, name }) => !name.startsWith(`${path.split('/')[1]}.`))).toEqual([]);
  });
  it('every COMMIT and CHECKPOINT runs through durable', () => {
    const endings = src.flatMap(({ path, code }) =>
      Array.from(code.matchAll(/^.*[`'"](?:COMMIT|CHECKPOINT\b).*$/gm), (match) => ({
        path,
        line: match[0],
      })),
    );
    expect(endings.length).toBeGreaterThan(1);
    expect(endings.filter(({ line }) => !/\bdurable\(/.test(line))).toEqual([]);
  });
  it('waits for the disk are defined in one place, and named by its callers', () => {
    const waits = ({ code }: SourceFile): readonly string[] => code.match(/\bfile\.(?:data)?sync\(\)/g) ?? [];
    expect(Object.keys(violations(src, waits))).toEqual(['src/lib/files.ts']);
  });

  it('write transactions of SQLite run through durable', () => {
    const effect = /(?<![.\w])transaction\(\(\) =>|\w+\.immediate\(\)/g;
    // Where the effects themselves are defined: their callers name them.
    const definitions = ['src/checkpoint/sqlite/open.ts'];
    const named = new RegExp(`durable\\('[^']+', \\(\\) =>\\s*(?:${effect.source})`, 'g');
    const callers = src.filter(({ path }) => !definitions.includes(path));
    const all = callers.flatMap(({ code }) => code.match(effect) ?? []);
    expect(all.length).toBeGreaterThan(0);
    const unnamed = ({ code }: SourceFile): readonly string[] => code.replace(named, '').match(effect) ?? [];
    expect(violations(callers, unnamed)).toEqual({});
  });
});

describe('dead code', () => {
  it('every file of src is reached from main.ts', () => {
    const reached = reachableFrom(['src/main.ts'], src);
    expect(src.map(({ path }) => path).filter((path) => !reached.has(path))).toEqual([]);
  });
  it('every value that a file of src exports is used by another file', () => {
    const named = new Map(everything.map(({ path, code }) => [path, new Set(code.match(/\w+/g))]));
    const isUsed = (name: string, path: string): boolean =>
      [...named].some(([other, names]) => other !== path && names.has(name));
    const unused = ({ path, code }: SourceFile): readonly string[] => {
      const exported = code.matchAll(/^export (?:async )?(?:const|function\*?|(?:abstract )?class) (\w+)/gm);
      return Array.from(exported, ([, name = '']) => name).filter((name) => !isUsed(name, path));
    };
    expect(violations(src, unused)).toEqual({});
  });
  it('every file of fixtures and of test is reached from a command or a test', () => {
    const command =
      /\.test\.ts$|^fixtures\/(?:main|demo\/main|demo\/compare)\.ts$|^test\/(?:[a-z]+\/main|mutation\/vitest\.config)\.ts$/;
    const ownProcess = /^test\/(?:support|bench)\/.*-child\.ts$/;
    const entries = everything
      .map(({ path }) => path)
      .filter((path) => command.test(path) || ownProcess.test(path));
    const ofVitest = readFileSync(join(projectRoot, 'vitest.config.ts'), 'utf8').matchAll(
      / from '\.\/(test\/[^']+)'/g,
    );
    const reached = reachableFrom([...entries, ...Array.from(ofVitest, ([, path = '']) => path)], everything);
    const unreached = [...fixtures, ...tests].map(({ path }) => path).filter((path) => !reached.has(path));
    expect(unreached).toEqual([]);
  });
  it('every dependency is imported, and has its line of reason in the README', () => {
    const manifest = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8'));
    const readme = readFileSync(join(projectRoot, 'README.md'), 'utf8');
    const bundle = readFileSync(join(projectRoot, 'bundle.ts'), 'utf8');
    const outside = /^const OUTSIDE = \[(.*?)\];$/ms.exec(bundle)?.[1]?.matchAll(/'([^']+)'/g) ?? [];
    const importedByBundle = Array.from(outside, ([, name = '']) => name);
    const used = new Set([...src.flatMap(({ packages }) => packages), ...importedByBundle]);
    const runtime = Object.keys(manifest.dependencies);
    // Yarn PnP and pnpm let a package import only its own dependencies.
    expect(runtime).toEqual(expect.arrayContaining(importedByBundle));
    expect(importedByBundle).toContain('@duckdb/node-bindings');
    const isUsed = (name: string): boolean =>
      [...used].some((used) => used === name || used.startsWith(`${name}/`));
    expect(runtime.filter((name) => !isUsed(name))).toEqual([]);
    const named = (name: string): boolean => new RegExp(`^\\| .*\`${name}\``, 'm').test(readme);
    expect([...runtime, ...Object.keys(manifest.devDependencies)].filter((name) => !named(name))).toEqual([]);
  });
});
