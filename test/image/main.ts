/**
 * `npm run image`: builds the Dockerfile as it stands, and runs the image against a fixture feed on a root that cannot
 * be written. For a machine without docker, and root's alone. What was seen is in config/README.md.
 */

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { Command } from 'commander';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { projectRoot } from '../support/source-tree.ts';
import { BASE_IMAGE, makeBaseImage } from './base-image.ts';
import { type Buildah, type Container, openBuildah } from './buildah.ts';
import { ContainerRunner } from './container-process.ts';
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
      await runIt(buildah, container, makeFolder(folder, 'run'));
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

async function runIt(buildah: Buildah, container: Container, folder: string): Promise<void> {
  const feed = await startFixtureFeed();
  try {
    const datasetIds = publishCounties(feed);
    const { baseUrl, apiKey } = feed;
    const runner = new ContainerRunner({
      container,
      configuration: buildah.configuration(TAG),
      folder,
      apiKey,
      baseUrl,
    });
    await expectExit(runner, 0, 'once');
    await expectExit(runner, 0, 'once');
    await expectExit(runner, 0, 'verify');
    await expectExit(runner, 64, 'twice');
    tell(`${datasetIds.length} datasets are mirrored; the volume holds ${megabytes(runner.dataFolder)}.`);
    process.stdout.write(execFileSync('ls', ['-ln', runner.dataFolder], { encoding: 'utf8' }));
  } finally {
    await feed.close();
  }
}

function publishCounties({ publisher }: FixtureFeed): readonly string[] {
  const sources = generateDatasets({ seed: 1, counties: 2, rowsPerDataset: 5_000 });
  const places = [...new Set(sources.map(({ placeId }) => placeId))];
  publisher.subscribe({ subscriptionId: 'sub_1', name: 'All counties', places });
  for (const { datasetId, placeId, topic, initial } of sources) {
    publisher.addDataset({ datasetId, placeId, topic });
    publisher.publish(datasetId, initial());
  }
  return sources.map(({ datasetId }) => datasetId);
}

async function expectExit(runner: ContainerRunner, expected: number, ...words: string[]): Promise<void> {
  const { exitCode, seconds } = await runner.start(...words).ended;
  if (exitCode !== expected) throw new Error(`"${words.join(' ')}" ended with ${exitCode}, not ${expected}.`);
  tell(`"${words.join(' ')}" ended with ${exitCode} after ${seconds.toFixed(1)} s.`);
}

/** What is in the image, part by part, as its files say. */
function tellSizes({ root }: Container): void {
  const modules = join(root, 'app/node_modules');
  const programs = join(root, 'usr/local');
  const parts: readonly (readonly [string, number])[] = [
    ['Debian', sizeBytes(root) - sizeBytes(programs) - sizeBytes(join(root, 'app'))],
    ['Node', sizeBytes(join(programs, 'bin/node'))],
    ['npm', sizeBytes(join(programs, 'lib/node_modules'))],
    ['DuckDB', sizeBytes(join(modules, '@duckdb'))],
    ['better-sqlite3', sizeBytes(join(modules, 'better-sqlite3'))],
    [
      'other packages',
      sizeBytes(modules) - sizeBytes(join(modules, '@duckdb'), join(modules, 'better-sqlite3')),
    ],
    ['feed-sync', sizeBytes(join(root, 'app')) - sizeBytes(modules)],
  ];
  for (const [name, bytes] of parts) tell(`${name}: ${(bytes / 1e6).toFixed(1)} MB`);
  tell(`together: ${megabytes(root)}`);
}

function megabytes(path: string): string {
  return `${(sizeBytes(path) / 1e6).toFixed(1)} MB`;
}

function tell(line: string): void {
  process.stdout.write(`${line}\n`);
}
