/** The project's own sources, as the checks of its structure see them. */

import { readFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

export const projectRoot = fileURLToPath(new URL('../..', import.meta.url));

export interface SourceFile {
  /** From the project's root, with forward slashes: `src/lib/clock.ts`. */
  readonly path: string;
  readonly lines: readonly string[];
  /** The text without comments. */
  readonly code: string;
  /** Paths of project files that it imports, from the project's root. */
  readonly imports: readonly string[];
  /** Those of them of which a value is imported as the file is loaded: neither types alone, nor by `import()`. */
  readonly loads: readonly string[];
  /** Packages and `node:` modules that it imports. */
  readonly packages: readonly string[];
}

/** `root`: the folder of the project, or of another state of it. */
export async function sourceFiles(folder: string, root = projectRoot): Promise<readonly SourceFile[]> {
  const paths: string[] = [];
  for await (const path of glob(`${folder}/**/*.ts`, { cwd: root })) paths.push(path);
  return paths.sort().map((path) => sourceFile(path, readFileSync(join(root, path), 'utf8')));
}

export function sourceFile(path: string, text: string): SourceFile {
  const specifiers = Array.from(
    text.matchAll(/^(?:import|export)\s(?:[^'";]*?\sfrom\s)?'([^']+)';|\bimport\('([^']+)'\)/gms),
    (match) => match[1] ?? match[2] ?? '',
  );
  return {
    path,
    lines: text.split('\n'),
    code: withoutComments(text),
    imports: projectFiles(path, specifiers),
    loads: projectFiles(path, loadedBy(text)),
    packages: specifiers.filter((specifier) => !specifier.startsWith('.')),
  };
}

function projectFiles(path: string, specifiers: readonly string[]): readonly string[] {
  return specifiers
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => normalize(join(dirname(path), specifier)));
}

function loadedBy(text: string): readonly string[] {
  const statements = text.matchAll(/^(?:import|export)\s(?!type\s)(?:([^'";]*?)\sfrom\s)?'([^']+)';/gms);
  return Array.from(statements).flatMap(([, names = '', specifier = '']) => {
    const members = /\{(?<members>[^}]*)\}/s.exec(names)?.groups?.['members']?.split(',') ?? [];
    const named = members.map((member) => member.trim()).filter((member) => member !== '');
    const isOfTypes = named.length > 0 && named.every((member) => member.startsWith('type '));
    return isOfTypes ? [] : specifier;
  });
}

/** Every file that is reached from the entries by imports, the entries among them. */
export function reachableFrom(entries: readonly string[], files: readonly SourceFile[]): ReadonlySet<string> {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const reached = new Set<string>();
  const visit = (path: string): void => {
    if (reached.has(path)) return;
    reached.add(path);
    for (const imported of byPath.get(path)?.imports ?? []) visit(imported);
  };
  for (const entry of entries) visit(entry);
  return reached;
}

/** Comments go; text in quotes stays as it is, also where it looks like a comment. */
function withoutComments(text: string): string {
  return text.replaceAll(
    /(`(?:\\[\s\S]|[^`\\])*`|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (_match, quoted: string | undefined) => quoted ?? '',
  );
}
