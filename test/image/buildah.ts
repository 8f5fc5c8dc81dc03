/** Debian's buildah with its own store of images in one folder, so that nothing of the machine's is touched. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { run } from './tools.ts';

export interface Buildah {
  build(order: BuildOrder): void;
  hasImage(tag: string): boolean;
  /** What the image says of how it is to be run. */
  configuration(tag: string): ImageConfiguration;
  /** Makes a container of the image. */
  container(tag: string): Container;
}

export interface BuildOrder {
  readonly folder: string;
  readonly tag: string;
}

export interface ImageConfiguration {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly WorkingDir: string;
  readonly Volumes: Readonly<Record<string, object>>;
  readonly StopSignal: string;
  readonly Labels: Readonly<Record<string, string>>;
  readonly Healthcheck: { readonly Test: readonly string[] };
}

export interface Container {
  readonly name: string;
  /** Where its root file system is mounted. */
  readonly root: string;
  remove(): void;
}

/** `chroot` needs neither user namespaces nor cgroups, which a container that builds containers seldom has. */
const ISOLATION = ['--isolation', 'chroot'];

export function openBuildah(store: string): Buildah {
  const buildah = (...words: readonly string[]): string =>
    run('buildah', ['--root', join(store, 'images'), '--runroot', join(store, 'run'), ...words]);
  return {
    build({ folder, tag }) {
      const mounts = authorityMounts(store).flatMap((mount) => ['--volume', mount]);
      const ways = [...ISOLATION, '--format', 'docker', '--pull-never', ...mounts];
      process.stderr.write(buildah('build', ...ways, '--tag', tag, folder));
    },
    hasImage: (tag) => buildah('images', '--format', '{{.Name}}:{{.Tag}}').split('\n').includes(tag),
    configuration(tag) {
      const { Docker: docker } = JSON.parse(buildah('inspect', '--type', 'image', tag));
      return docker.config;
    },
    container(tag) {
      const name = buildah('from', '--pull-never', tag).trim();
      return { name, root: buildah('mount', name).trim(), remove: () => void buildah('rm', name) };
    },
  };
}

/** Where a network has an authority of its own, npm inside the build gets it, and nothing of it is kept. */
function authorityMounts(store: string): readonly string[] {
  const { NODE_EXTRA_CA_CERTS: authorities } = process.env;
  if (authorities === undefined) return [];
  const inside = '/run/authorities.crt';
  const settings = join(store, 'npmrc');
  writeFileSync(settings, `cafile=${inside}\n`);
  return [`${settings}:/root/.npmrc:ro`, `${authorities}:${inside}:ro`];
}
