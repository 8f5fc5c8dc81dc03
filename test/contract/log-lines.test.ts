/** The page about the lines of the log, and the program, agree: which lines there are, with which levels and fields. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DOCUMENTED_LINES, problemOfLine, undocumentedFields } from '../support/documented-lines.ts';
import { sourceFiles } from '../support/source-tree.ts';

/** The beginning of a call that logs; what follows up to its end has the message. */
const CALL = /\b[lL]og(?:\[[^\]]+\]|\.(?:trace|debug|info|warn|error))\(/g;
const SENTENCE = /'([^'\n]+\.)'/g;

/** Every sentence in the arguments of calls that log. */
async function messagesOfTheProgram(): Promise<ReadonlySet<string>> {
  const files = await sourceFiles('src');
  return new Set(
    files.flatMap(({ code }) =>
      [...code.matchAll(CALL)].flatMap(({ index, 0: call }) => {
        const rest = code.slice(index + call.length);
        return [...rest.slice(0, endOfCall(rest)).matchAll(SENTENCE)].map(([, sentence = '']) => sentence);
      }),
    ),
  );
}

/** Where the bracket closes that was open before. */
function endOfCall(code: string): number {
  let open = 1;
  for (const { index, 0: bracket } of code.matchAll(/[()]/g)) {
    open += bracket === '(' ? 1 : -1;
    if (open === 0) return index;
  }
  return code.length;
}

it('every line that the program may write is documented, and no other', async () => {
  const messages = await messagesOfTheProgram();
  expect(messages.size).toBeGreaterThan(40);
  expect([...DOCUMENTED_LINES.keys()].toSorted()).toEqual([...messages].toSorted());
});

it('every documented field of a line has its type', () => {
  expect(undocumentedFields()).toEqual([]);
});

it.each(readdirSync(join(import.meta.dirname, 'golden/log')))('the lines of %s are as documented', (name) => {
  const lines: Record<string, unknown>[] = JSON.parse(
    readFileSync(join(import.meta.dirname, 'golden/log', name), 'utf8'),
  );
  expect(lines.map(problemOfLine).filter((difference) => difference !== null)).toEqual([]);
});

describe('lines that are not as documented', () => {
  const line = { level: 'info', time: '', dataset: 'parcels', version: 1, rows: 1, bytes: 1, durationMs: 1 };
  it.each([
    [{ msg: 'Loaded it.' }, '"Loaded it." is not in src/cli/log-lines.md'],
    [{ level: 'warn' }, '"Loaded a snapshot." is documented with another level than warn'],
    [{ size: 1 }, '"Loaded a snapshot." has size, has size 1, documented as undefined'],
    [{ rows: null }, '"Loaded a snapshot." has rows null, documented as integer'],
    [{}, null],
  ])('finds the difference from the documentation: %j', (changed, difference) => {
    expect(problemOfLine({ msg: 'Loaded a snapshot.', ...line, ...changed })).toBe(difference);
  });
});
