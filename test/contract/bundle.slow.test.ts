/** What is made of the sources is the program, and says where it comes from. */

import { globSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { builtProgram } from '../support/built-program.ts';
import { countyFeed } from '../support/county-feed.ts';
import { type Ended, program } from '../support/program.ts';
import { projectRoot } from '../support/source-tree.ts';

const dist = dirname(builtProgram());

/** As in the client's limits: a file of so many bytes has a thread. */
const HAS_A_THREAD_BYTES = 16_000_000;
const CLOCK = `import { systemClock } from ${JSON.stringify(pathToFileURL(join(dist, 'clock.js')).href)};`;
/** Of a module in node_modules, as source maps name it. */
const PACKAGE = /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/;
/** As the bundler writes it, without white space; what looks like it elsewhere stands in comments and texts. */
const IMPORTED =
  /(?:^|[;}])(?:import|export)\b[^"'`\n;()]*["'`]([^"'`./][^"'`\n]*)["'`]|(?:require|\bimport)\(["'`]([^"'`./][^"'`\n]*)["'`]\)/gm;

it('the stack of a bug names files and lines of src, also through a command that is loaded when it is called', async () => {
  const { exitCode, stderr } = await onceWith(
    `${CLOCK} systemClock.now = () => { throw new TypeError('It is broken.'); };`,
  );
  expect(exitCode).toBe(70);
  expect(stderr).toContain('A bug in feed-sync ended it:\nTypeError: It is broken.\n');
  expectSources(stderr);
});

it('the stack of an error that nobody catches names files and lines of src', async () => {
  const { exitCode, stderr } = await onceWith(`${CLOCK} const { now } = systemClock; systemClock.now = () => {
    const error = new TypeError('It is broken.');
    setImmediate(() => { throw error; });
    return now();
  };`);
  expect(exitCode).toBe(1);
  expect(stderr).toContain('\n\nTypeError: It is broken.\n');
  expectSources(stderr);
});

it('reads no source map without a bug', async () => {
  const { exitCode, stderr } = await onceWith(`import fs from 'node:fs';
    import { syncBuiltinESMExports } from 'node:module';
    const { readFileSync } = fs;
    fs.readFileSync = (path, ...rest) => {
      process.stderr.write(\`read \${path}\\n\`);
      return readFileSync(path, ...rest);
    };
    syncBuiltinESMExports();`);
  expect(exitCode, stderr).toBe(0);
  expect(stderr).toMatch(/^read .*package\.json$/m);
  expect(stderr).not.toMatch(/^read .*\.map$/m);
});

it('hashes a large file in a thread, whose script is found', async () => {
  const { feed, datasetIds } = await countyFeed({
    counties: 1,
    kinds: ['ordinances'],
    rowsPerDataset: 12_000,
  });
  const installed = await program({ feed });
  const { exitCode, stderr } = await installed.run('once');
  expect(exitCode, stderr).toBe(0);
  const loaded = stderr.split('\n').find((line) => line.includes('Loaded a snapshot.')) ?? '{}';
  expect(JSON.parse(loaded).dataset).toBe(datasetIds[0]);
  expect(JSON.parse(loaded).bytes).toBeGreaterThan(HAS_A_THREAD_BYTES);
});

it('every package whose code is in the bundle has its licence beside it, and no other', () => {
  const sources = globSync('*.map', { cwd: dist }).flatMap(
    (path): readonly string[] => JSON.parse(readFileSync(join(dist, path), 'utf8')).sources,
  );
  const names = new Set(sources.flatMap((source) => PACKAGE.exec(source)?.[1] ?? []));
  const notices = readFileSync(join(dist, 'THIRD-PARTY-NOTICES.txt'), 'utf8').split(/\n-{80}\n\n/);
  const titles = notices.map((notice) => /^(\S+) \S+ \(\S+\)\n\n\S/.exec(notice)?.[1]);
  expect([...names]).toContain('undici');
  expect(titles.toSorted()).toEqual([...names].toSorted());
});

it('the bundle imports nothing but itself, Node and the dependencies in package.json', () => {
  const { dependencies } = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8'));
  const imported = globSync('*.js', { cwd: dist }).flatMap((path) =>
    Array.from(
      readFileSync(join(dist, path), 'utf8').matchAll(IMPORTED),
      ([, name, called = '']) => name ?? called,
    ),
  );
  const packages = new Set(imported.filter((name) => !isBuiltin(name)));
  expect([...packages]).toEqual(expect.arrayContaining(['@duckdb/node-bindings', 'better-sqlite3', 'pg']));
  expect([...packages].filter((name) => !(name in dependencies))).toEqual([]);
});

it('says which Node it needs on one that lacks what the program imports from newer ones', async () => {
  const { exitCode, stderr } = await onceWith(`import { registerHooks } from 'node:module';
    Object.defineProperty(process, 'version', { value: 'v20.20.2' });
    const older = 'data:text/javascript,export default {}';
    registerHooks({
      resolve: (name, context, next) =>
        name === 'node:module' ? { url: older, format: 'module', shortCircuit: true } : next(name, context),
    });`);
  expect(exitCode, stderr).toBe(78);
  expect(stderr).toContain('feed-sync needs Node 24 or newer, and this is v20.20.2.');
});

/** `once` with a module that is evaluated in the process before the program. */
async function onceWith(module: string): Promise<Ended> {
  const { feed } = await countyFeed({ counties: 1, rowsPerDataset: 10 });
  const installed = await program({ feed });
  const preload = `--import=data:text/javascript;base64,${Buffer.from(module).toString('base64')}`;
  return installed.runWith({ NODE_OPTIONS: preload }, 'once');
}

function expectSources(stack: string): void {
  expect(stack).toMatch(/^ {4}at openParts \(src\/cli\/open-parts\.ts:\d+:\d+\)$/m);
  expect(stack).toMatch(/^ {4}at once \(src\/cli\/commands\/once\.ts:\d+:\d+\)$/m);
  expect(stack).not.toContain(dist);
}
