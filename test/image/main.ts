/**
 * `npm run image`: builds the Dockerfile as it stands, and runs the image against a fixture feed on a root that cannot
 * be written. For a machine without docker, and root's alone. What was seen is in docs/measurements.md.
 */

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { Command } from 'commander';
import { projectRoot } from '../support/source-tree.ts';
import { BASE_IMAGE, makeBaseImage } from './base-image.ts';
import { type Container, openBuildah } from './buildah.ts';
import { showRuns } from './runs.ts';
import { missingTools, sizeBytes } from './tools.ts';

const TAG = 'localhost/feed-sync:checked';
const TOOLS = ['buildah', 'debootstrap', 'unshare', 'setpriv', 'npm'];
const UNAVAILABLE = 69;

const { store } = new Command('image')
  .description('Builds the image and runs it against a fixture feed, on a machine without docker.')
  .option('--store <folder>', 'keeps the base image for the next time', join(tmpdir(), 'feed-sync-image'))
  .parse()
  .opts<{ store: string }>();

const missing = missingTools(TOOLS);
if (missing.length > 0 || process.getuid?.() !== 0) {
  process.stderr.write(
    `The image is not checked: this needs root and ${TOOLS.join(', ')}. Missing: ${missing.join(', ') || 'root'}.\n` +
      '→ On Debian: apt-get install buildah debootstrap\n',
  );
  process.exit(UNAVAILABLE);
}
await checkImage(store);

async function checkImage(storeFolder: string): Promise<void> {
  mkdirSync(storeFolder, { recursive: true });
  const buildah = openBuildah(storeFolder);
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-image-'));
  try {
    if (!buildah.hasImage(BASE_IMAGE)) makeBaseImage(buildah, makeFolder(folder, 'base'));
    buildah.build({ folder: projectRoot, tag: TAG });
    const container = buildah.container(TAG);
    try {
      tellSizes(container);
      const configuration = buildah.configuration(TAG);
      await showRuns({ container, configuration, folder: makeFolder(folder, 'run') }, report);
    } finally {
      container.remove();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function makeFolder(parent: string, name: string): string {
  const folder = join(parent, name);
  mkdirSync(folder);
  return folder;
}

/** What is in the image, part by part, as its files say. */
function tellSizes({ root }: Container): void {
  const modules = join(root, 'app/node_modules');
  const programs = join(root, 'usr/local');
  const parts: readonly (readonly [string, number])[] = [
    ['Debian', sizeBytes(root) - sizeBytes(programs) - sizeBytes(join(root, 'app'))],
    ['Node', sizeBytes(join(programs, 'bin/node'))],
    ['DuckDB', sizeBytes(join(modules, '@duckdb'))],
    ['better-sqlite3', sizeBytes(join(modules, 'better-sqlite3'))],
    [
      'other packages',
      sizeBytes(modules) - sizeBytes(join(modules, '@duckdb'), join(modules, 'better-sqlite3')),
    ],
    ['feed-sync', sizeBytes(join(root, 'app')) - sizeBytes(modules)],
  ];
  for (const [name, bytes] of parts) report(`${name}: ${(bytes / 1e6).toFixed(1)} MB`);
  report(`together: ${megabytes(root)}`);
}

function megabytes(path: string): string {
  return `${(sizeBytes(path) / 1e6).toFixed(1)} MB`;
}

function report(line: string): void {
  process.stdout.write(`${line}\n`);
}
