/** The Python that runs the peers, and what it lacks. */

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import process from 'node:process';

/** `python3`, or the interpreter that `BENCH_PYTHON` names. */
export const PYTHON = process.env['BENCH_PYTHON'] ?? 'python3';

const REQUIREMENTS = new URL('raw/requirements.txt', import.meta.url);

/** Null where Python is there with these packages of `requirements.txt`, in the versions that it pins. */
export function whyNoPython(packages: readonly string[]): string | null {
  const pinned = new Map(
    readFileSync(REQUIREMENTS, 'utf8')
      .split('\n')
      .flatMap((line) => (line.includes('==') ? [line.split('==') as [string, string]] : [])),
  );
  const lacking = packages.filter((name) => versionOf(name) !== pinned.get(name));
  if (lacking.length === 0) return null;
  const named = lacking.map((name) => `${name} ${pinned.get(name)}`).join(', ');
  return `${PYTHON} lacks ${named}. Make an environment (python3 -m venv FOLDER && FOLDER/bin/pip install -r test/bench/raw/requirements.txt), and set BENCH_PYTHON=FOLDER/bin/python.`;
}

/** Null where the package, or Python itself, is not there. */
function versionOf(name: string): string | null {
  const program = `import importlib.metadata; print(importlib.metadata.version('${name}'))`;
  const { status, stdout } = spawnSync(PYTHON, ['-c', program], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : null;
}
