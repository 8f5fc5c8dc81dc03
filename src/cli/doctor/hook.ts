/** Checks that the command after commits can be run, before there is a commit to run it for. Nothing is run. */

import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { readText, systemCode, systemReason } from '../../lib/files.ts';
import { printable } from '../../lib/text.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { type Finding, ok, problem } from './check.ts';

const ABOUT = 'after commits';
const HINT =
  'Set hooks.afterCommit to a program that this user may run; a path starts at the folder of the settings file.';
/** Where the system looks without the variable PATH. */
const DEFAULT_PATH = '/bin:/usr/bin';
/** Larger files are no scripts. */
const MAX_SCRIPT_BYTES = 1_000_000;

/** Checks the command after commits. `command`: the program and its arguments. `searchPath`: of the environment that the program gets. */
export async function hookFindings(
  command: readonly string[] | null,
  searchPath: string | undefined,
): Promise<readonly Finding[]> {
  if (command === null) return [];
  const [program = ''] = command;
  const places = program.includes('/')
    ? [program]
    : (searchPath ?? DEFAULT_PATH).split(delimiter).map((folder) => join(folder || '.', program));
  const faults: unknown[] = [];
  for (const place of places) {
    const fault = await faultOf(place);
    if (fault === null) return [ok(ABOUT, place)];
    faults.push(fault);
  }
  // The system goes on to the next folder, and names the first that refused it.
  const fault = faults.find((one) => systemCode(one) !== 'ENOENT') ?? null;
  return [problem(ABOUT, foundText(program, fault, places.length), EXIT_CODES.wrongConfiguration, HINT)];
}

function foundText(program: string, fault: unknown, places: number): string {
  const none = program.includes('/')
    ? 'there is no such file'
    : `none of the ${places} folders of PATH has a program of this name`;
  return `The command after commits, ${printable(program)}, cannot be run: ${fault === null ? none : reasonOf(fault)}.`;
}

function reasonOf(fault: unknown): string {
  return fault instanceof Error && systemCode(fault) === null ? fault.message : systemReason(fault);
}

/** Null where the program can be run. */
async function faultOf(place: string): Promise<unknown> {
  try {
    const found = await stat(place);
    if (found.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' });
    await access(place, constants.X_OK);
    if (found.size < MAX_SCRIPT_BYTES) await refuseMissingInterpreter(place);
    return null;
  } catch (error) {
    return error;
  }
}

/** A script whose first line names a program that is not there counts as missing itself, which confuses people. */
async function refuseMissingInterpreter(place: string): Promise<void> {
  const [, interpreter] = /^#![ \t]*([^ \t\n]+)/.exec(beginningOf(place)) ?? [];
  if (interpreter === undefined) return;
  await access(interpreter, constants.X_OK).catch(() => {
    const ending = interpreter.endsWith('\r') ? ', for its lines end as on Windows' : '';
    throw new Error(`its first line names ${printable(interpreter)}, which is not there${ending}`);
  });
}

/** Empty where the file may be run but not read. */
function beginningOf(place: string): string {
  try {
    return readText(place);
  } catch {
    return '';
  }
}
