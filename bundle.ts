/**
 * Makes dist of src, for `npm run build`: the program and most of its packages in few files, because loading module by
 * module takes more than half of the time of a `once` with nothing new. Commands that are loaded when they are called stay
 * files of their own. Types are checked by tsc before.
 */

import { chmodSync, copyFileSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join, sep } from 'node:path';
import { build, type Plugin } from 'rolldown';

/**
 * What stays in node_modules: what has a binary of its own, what only some installations load, and what brings no text of
 * its licence.
 */
const OUTSIDE = [
  '@duckdb/node-bindings',
  'better-sqlite3',
  'pg',
  'pg-copy-streams',
  'pino-pretty',
  'standardwebhooks',
];
const NOTICES = 'THIRD-PARTY-NOTICES.txt';
/**
 * What the program uses of undici. Undici's own index loads everything that undici has, twice as much; it also gives dispatchers
 * their methods, which is done here.
 */
const USED_OF_UNDICI = `
  const Dispatcher = require('./lib/dispatcher/dispatcher.js');
  Object.assign(Dispatcher.prototype, require('./lib/api/index.js'));
  exports.EnvHttpProxyAgent = require('./lib/dispatcher/env-http-proxy-agent.js');
`;
/** Modules that the program never uses, by what stands for them; loading the first one takes as long as opening a connection. */
const LEFT_OUT: ReadonlyMap<string, string> = new Map([
  // `allowH2` is false.
  ['undici/lib/dispatcher/client-h2.js', leftOut('HTTP/2')],
  // An experimental parser that only a variable of its own switches on.
  ['undici/lib/dispatcher/parser-h1.js', 'exports.getMiloEnabled = () => false;'],
  // The log goes to a stream.
  ['pino/lib/transport.js', leftOut('A transport of the log')],
]);
const EXECUTABLE = 0o755;

const root = import.meta.dirname;
const made = join(root, 'dist.new');
const dist = join(root, 'dist');

rmSync(made, { recursive: true, force: true });
await build({
  cwd: root,
  input: {
    main: 'src/main.ts',
    'digest-worker': 'src/feed/download/digest-worker.ts',
    'examine-child': 'src/destination/duckdb/damage/examine-child.ts',
    // A process that is steered from outside, for tests, has its clock, its durable effects and its DuckDB here.
    clock: 'src/lib/clock.ts',
    files: 'src/lib/files.ts',
    duckdb: '@duckdb/node-api',
  },
  platform: 'node',
  external: OUTSIDE,
  plugins: [usedOfUndici(), withoutLeftOut(), notices()],
  output: {
    dir: made,
    format: 'esm',
    // Names stay, for the stacks of errors. What is not there is not parsed at each start.
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
    sourcemap: true,
    sourcemapExcludeSources: true,
    chunkFileNames: '[name]-[hash].js',
  },
});
copyFileSync(join(root, 'src/daemon/server/page/status.html'), join(made, 'status.html'));
chmodSync(join(made, 'main.js'), EXECUTABLE);
rmSync(dist, { recursive: true, force: true });
renameSync(made, dist);

function usedOfUndici(): Plugin {
  const index = join(root, 'node_modules/undici/used.cjs');
  return {
    name: 'used-of-undici',
    resolveId: (source) => (source === 'undici' ? index : null),
    load: (id) => (id === index ? USED_OF_UNDICI : null),
  };
}

/** @throws at the end of the build where a module that is left out is not there any more. */
function withoutLeftOut(): Plugin {
  const missing = new Set(LEFT_OUT.keys());
  const nameOf = (id: string): string => id.slice(id.lastIndexOf('node_modules/') + 'node_modules/'.length);
  return {
    name: 'without-left-out',
    load(id) {
      const name = nameOf(id);
      missing.delete(name);
      return LEFT_OUT.get(name) ?? null;
    },
    buildEnd() {
      if (missing.size > 0) throw new Error(`Nothing loads ${[...missing].join(', ')} any more.`);
    },
  };
}

function leftOut(what: string): string {
  return `module.exports = () => { throw new Error('${what} is not in the bundle.'); };`;
}

/** Writes the licences of the packages whose code is in the bundle. @throws where a package has no text of its licence. */
function notices(): Plugin {
  return {
    name: 'notices',
    generateBundle(_options, bundle) {
      const moduleIds = Object.values(bundle).flatMap((file) =>
        file.type === 'chunk' ? file.moduleIds : [],
      );
      const folders = new Set(moduleIds.map(packageFolder).filter((folder) => folder !== null));
      const source = [...folders]
        .toSorted()
        .map(notice)
        .join(`\n${'-'.repeat(80)}\n\n`);
      this.emitFile({ type: 'asset', fileName: NOTICES, source });
    },
  };
}

/** Where the package of a module lies; null for the program's own. */
function packageFolder(moduleId: string): string | null {
  const parent = `${sep}node_modules${sep}`;
  const end = moduleId.lastIndexOf(parent);
  if (end < 0) return null;
  const names = moduleId.slice(end + parent.length).split(sep);
  return join(moduleId.slice(0, end + parent.length), ...names.slice(0, names[0]?.startsWith('@') ? 2 : 1));
}

function notice(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const files = readdirSync(folder).filter((file) => /^(?:licen[cs]e|copying|notice)/i.test(file));
  if (files.length === 0)
    throw new Error(`${name} ${version} is in the bundle and has no text of its licence.`);
  const texts = files.map((file) => readFileSync(join(folder, file), 'utf8').trim());
  return `${[`${name} ${version} (${license})`, ...texts].join('\n\n')}\n`;
}
