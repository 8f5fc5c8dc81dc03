/** Files that the configuration names may contain anything: they are read to a limit, and nothing of them is executed. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { MAX_TEXT_BYTES, readText } from '../../src/lib/files.ts';
import { isChosenDataset } from '../../src/sync/follow/subscriptions.ts';
import { load, loadFile, problemsOf, REQUIRED } from '../support/configuration.ts';
import { HOSTILE } from './hostile-texts.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'feed-sync-security-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

it('refuses a configuration file that is too large or without end', () => {
  const large = join(folder(), 'large');
  writeFileSync(large, 'é'.repeat(MAX_TEXT_BYTES / 2));
  expect(readText(large)).toHaveLength(MAX_TEXT_BYTES / 2);
  writeFileSync(large, 'x'.repeat(MAX_TEXT_BYTES + 100_000));
  for (const path of [large, '/dev/zero']) expect(() => readText(path)).toThrow('EFBIG');
  for (const name of ['FEED_SYNC_CONFIG', 'FEED_SYNC_API_KEY_FILE']) {
    const { FEED_SYNC_BASE_URL } = REQUIRED;
    const environment = { FEED_SYNC_BASE_URL, [name]: '/dev/zero' };
    const problems = problemsOf(() => load({ environment, readFile: readText })).join('\n');
    expect(problems).toMatch(/\/dev\/zero', which cannot be read|\/dev\/zero' cannot be read/);
  }
});

it('reads a key through a pipe, and refuses one that is no text without printing it', () => {
  const pipe = join(folder(), 'pipe');
  expect(spawnSync('mkfifo', [pipe]).status).toBe(0);
  const script = `import { readText } from '${join(import.meta.dirname, '../../src/lib/files.ts')}'; process.stdout.write(readText('${pipe}'));`;
  const reading = `${process.execPath} --input-type=module-typescript -e "${script}"`;
  const { stdout } = spawnSync('sh', ['-c', `printf 'the-key' > '${pipe}' & ${reading}`], {
    encoding: 'utf8',
  });
  expect(stdout).toBe('the-key');
  const binary = Buffer.from([0xff, 0xfe, 0, 1, 2, 3]).toString('utf8');
  const environment = { ...REQUIRED, FEED_SYNC_API_KEY: '', FEED_SYNC_API_KEY_FILE: '/run/key' };
  for (const content of [binary, 'line one\nline two', 'x'.repeat(100_000)]) {
    const problems = problemsOf(() => load({ environment, files: { '/run/key': content } }));
    expect(problems).toHaveLength(1);
    expect(problems.join()).not.toContain(content.slice(0, 8));
  }
});

it.each([
  ['an alias within itself', 'datasets: &d { include: *d }'],
  ['nested aliases', 'a: &a [x, x]\nsubscriptions: [*a, *a, *a]'],
  ['a merge', 'x: &x { include: [a] }\ndatasets:\n  <<: *x'],
  ['a type', 'subscriptions: !!js/function "function () {}"'],
  ['lists in lists', `subscriptions: ${'['.repeat(2_000)}${']'.repeat(2_000)}`],
  ['groups in groups', `${'a: {'.repeat(2_000)}${'}'.repeat(2_000)}`],
  ['a prototype', '__proto__: { polluted: true }\nconstructor: { prototype: { polluted: true } }'],
])('reports a problem in a configuration with %s', (_name, text) => {
  expect(problemsOf(() => loadFile(text)).length).toBeGreaterThan(0);
  expect(Object('').polluted).toBeUndefined();
});

it('takes ids, patterns and paths of the configuration as plain texts', () => {
  const quoted = JSON.stringify(HOSTILE);
  const { configuration } = loadFile(
    `subscriptions: [${quoted}]\ndatasets: { include: [${quoted}] }\ndestination: { path: ${JSON.stringify("/a'; DROP--\n/x")} }`,
  );
  expect(configuration.subscriptions).toEqual([HOSTILE.trim()]);
  expect(configuration.destination.path).toBe("/a'; DROP--\n/x");
});

it('matches a pattern with many stars at once, whatever the id', () => {
  const id = 'a'.repeat(10_000);
  expect(isChosenDataset(id, [`${'*a'.repeat(2_000)}b`], [])).toBe(false);
  expect(isChosenDataset(`${id}b`, [`${'*a'.repeat(2_000)}b`], [])).toBe(true);
});
