/** Which file is read, and its text. A file that somebody named must be there; the usual places may be empty. */

import { resolve } from 'node:path';
import { systemCode, systemReason } from '../lib/system-code.ts';
import type { Environment, Flags } from './levels.ts';
import { FILE_FLAG, FILE_VARIABLE } from './names.ts';
import { type Problem, quoted } from './problems.ts';

/** Far above any real file; a wrong path may name anything. */
const MAX_FILE_CHARACTERS = 1_000_000;

const DEFAULT_PATHS = ['./feed-sync.yaml', '/etc/feed-sync/feed-sync.yaml'];

/** The text of a file as UTF-8. @throws the system's errors, with `code`. */
export type ReadFile = (path: string) => string;

export type Located =
  | { readonly kind: 'none' }
  /** `path` is absolute. */
  | { readonly kind: 'text'; readonly path: string; readonly text: string }
  /** `path` is absolute. */
  | { readonly kind: 'trouble'; readonly path: string; readonly problem: Problem };

export interface LocateInput {
  readonly flags: Flags;
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly readFile: ReadFile;
}

export function locateFile({ flags, environment, workingDirectory, readFile }: LocateInput): Located {
  const named = namedFile(flags, environment);
  const candidates = named === null ? DEFAULT_PATHS : [named.path];
  for (const candidate of candidates) {
    const path = resolve(workingDirectory, candidate);
    const source = named?.source ?? 'looked for where no file is named';
    const trouble = (reason: string): Located => {
      const problem = { subject: `The file ${quoted(path)}`, trouble: reason, source };
      return { kind: 'trouble', path, problem };
    };
    try {
      const text = readFile(path);
      if (text.length > MAX_FILE_CHARACTERS) return trouble('is too large to be a configuration');
      return { kind: 'text', path, text };
    } catch (error) {
      const isMissing = systemCode(error) === 'ENOENT';
      if (named !== null || !isMissing) return trouble(`cannot be read: ${systemReason(error)}`);
    }
  }
  return { kind: 'none' };
}

function namedFile(flags: Flags, environment: Environment): { path: string; source: string } | null {
  const flag = flags[FILE_FLAG];
  if (flag !== undefined) return { path: flag, source: `flag ${FILE_FLAG}` };
  const variable = (environment[FILE_VARIABLE] ?? '').trim();
  return variable === '' ? null : { path: variable, source: `environment ${FILE_VARIABLE}` };
}
