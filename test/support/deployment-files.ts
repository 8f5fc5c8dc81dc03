/** The files by which the program is installed, as their readers take them apart. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import { projectRoot } from './source-tree.ts';

/** `path` from the project's root. */
export function projectText(path: string): string {
  return readFileSync(join(projectRoot, path), 'utf8');
}

export function yamlFile(path: string): unknown {
  return parse(projectText(path));
}

/** The objects of a Kubernetes file by their kind. Kubernetes reads YAML 1.1, in which 0440 is octal. */
export function kubernetesObjects(name: string): ReadonlyMap<string, unknown> {
  const documents = parseAllDocuments(projectText(`config/kubernetes/${name}`), { version: '1.1' });
  return new Map(
    documents.map((document) => {
      if (document.errors[0] !== undefined) throw document.errors[0];
      const object: unknown = document.toJS();
      return [String(at(object, 'kind')), object];
    }),
  );
}

/** What stands at `path`: `spec.containers.0.name`. @throws Error where nothing does. */
export function at(tree: unknown, path: string): unknown {
  return path.split('.').reduce((branch: unknown, key) => {
    const next: unknown =
      typeof branch === 'object' && branch !== null ? Reflect.get(branch, key) : undefined;
    if (next === undefined) throw new Error(`There is no ${key} of ${path}.`);
    return next;
  }, tree);
}

/** The same, where it is a list. */
export function listAt(tree: unknown, path: string): readonly unknown[] {
  const list = at(tree, path);
  if (!Array.isArray(list)) throw new Error(`${path} is no list.`);
  return list;
}

/** The lines of a systemd unit below their sections: `Service.User=feed-sync`. Comments and empty lines are left out. */
export function unitLines(name: string): readonly string[] {
  let section = '';
  return projectText(`config/systemd/${name}`)
    .split('\n')
    .flatMap((line) => {
      const [, header] = /^\[(\w+)\]$/.exec(line) ?? [];
      if (header !== undefined) section = header;
      return /^\w+=/.test(line) ? [`${section}.${line}`] : [];
    });
}

/** What an instruction of the Dockerfile's last stage says. */
export function dockerfileSays(instruction: string): string {
  const lastStage =
    projectText('Dockerfile')
      .split(/^FROM /m)
      .at(-1) ?? '';
  const [, said] = new RegExp(`^${instruction} (.+)$`, 'm').exec(lastStage) ?? [];
  if (said === undefined) throw new Error(`The Dockerfile has no ${instruction}.`);
  return said;
}
