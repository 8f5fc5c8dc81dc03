/**
 * Stands in for the image `node:24-bookworm-slim` where no registry of images can be reached: Debian bookworm by
 * debootstrap, less what Debian's slim images leave out, and Node 24 and npm from npm's packages of these names.
 */

import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Buildah } from './buildah.ts';
import { run } from './tools.ts';

export const BASE_IMAGE = 'docker.io/library/node:24-bookworm-slim';

const NODE = fileURLToPath(new URL('../../node_modules/node/bin/node', import.meta.url));
const NPM_VERSION = '11';
/** What a slim image does without. */
const LEFT_OUT = ['doc', 'man', 'locale', 'info'].map((name) => `usr/share/${name}`);
const EMPTIED = ['var/cache/apt', 'var/lib/apt/lists'];

/** Makes the image in an empty `folder`. Needs the packages of Debian and npm. */
export function makeBaseImage(buildah: Buildah, folder: string): void {
  const root = join(folder, 'root');
  run('debootstrap', ['--variant=minbase', 'bookworm', root]);
  run('rm', ['-r', ...[...LEFT_OUT, ...EMPTIED].map((path) => join(root, path))]);
  for (const path of EMPTIED) mkdirSync(join(root, path), { recursive: true });
  const programs = join(root, 'usr/local/bin');
  cpSync(NODE, join(programs, 'node'));
  installNpm(folder, root);
  for (const name of ['npm', 'npx']) {
    symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, join(programs, name));
  }
  run('tar', ['-C', root, '-cf', join(folder, 'root.tar'), '.']);
  writeFileSync(join(folder, 'Dockerfile'), 'FROM scratch\nADD root.tar /\n');
  buildah.build({ folder, tag: BASE_IMAGE });
}

function installNpm(folder: string, root: string): void {
  const installed = join(folder, 'npm');
  mkdirSync(installed);
  writeFileSync(join(installed, 'package.json'), '{}');
  run('npm', ['install', '--prefix', installed, '--ignore-scripts', `npm@${NPM_VERSION}`]);
  const modules = join(root, 'usr/local/lib/node_modules');
  mkdirSync(modules, { recursive: true });
  cpSync(join(installed, 'node_modules/npm'), join(modules, 'npm'), { recursive: true });
}
