/** The help of the commands: its descriptions have one form. */

import { Writable } from 'node:stream';
import { expect, it } from 'vitest';
import type { Context } from '../../src/cli/context.ts';
import { EXAMPLES } from '../../src/cli/examples.ts';
import { runProgram } from '../../src/cli/program.ts';

async function helpOf(command: string): Promise<string> {
  let shown = '';
  const stdout = new Writable({
    write(chunk, _encoding, done) {
      shown += String(chunk);
      done();
    },
  });
  const terminal = { stdout, stderr: stdout, width: 1_000 };
  // No command is run.
  await runProgram([...command.split(' '), '--help'], '1.2.3', { terminal } as unknown as Context);
  return shown;
}

it.each(Object.keys(EXAMPLES))(
  'the help of %s describes each argument and option in sentences',
  async (command) => {
    const described = Array.from(
      (await helpOf(command)).matchAll(/^ {2}(?:-\S|[a-z]+ {2}).*? {2,}(.*)$/gm),
      ([, words = '']) => words,
    );
    expect(described.length).toBeGreaterThan(5);
    // With a capital letter and a full stop, and without the brackets of commander.
    expect(
      described.filter((words) => !/^[A-Z].*\.$/.test(words) || /\((?:choices|default)/.test(words)),
    ).toEqual([]);
  },
);
