/** What `npm run numbers` counts as copied. */

import { describe, expect, it } from 'vitest';
import { copiedIn } from '../structure/copied.ts';
import { sourceFile } from '../support/source-tree.ts';

const SIX = ['const a = 1;', 'const b = 2;', 'const c = 3;', 'const d = 4;', 'const e = 5;', 'const f = 6;'];
const file = (path: string, ...lines: readonly string[]) => sourceFile(`src/${path}.ts`, lines.join('\n'));

describe('the copied lines of a folder', () => {
  it('counts the lines of a run that stands at an earlier place, in another file or in the same', () => {
    expect(copiedIn([file('one', ...SIX), file('two', 'start();', ...SIX, 'end();')])).toEqual({
      compared: 14,
      copied: 6,
      runs: [{ path: 'src/two.ts', lines: 6, firstLine: SIX[0], original: 'src/one.ts' }],
    });
    expect(copiedIn([file('one', ...SIX, ...SIX, 'between();', ...SIX)])).toMatchObject({ copied: 12 });
  });

  it('counts no run of four lines, and no equal lines that follow each other', () => {
    const [first, ...four] = SIX.slice(0, 5);
    expect(copiedIn([file('one', ...SIX), file('two', `${first}!`, ...four)])).toMatchObject({ copied: 0 });
    expect(
      copiedIn([file('one', 'next();', 'next();', 'next();', 'next();', 'next();', 'next();')]),
    ).toMatchObject({
      copied: 0,
    });
  });

  it('compares lines without imports, comments, brackets alone and the space before them', () => {
    const indented = SIX.flatMap((line) => ['{', `  ${line} // as above`, '}', '']);
    const imports = ["import { x } from './x.ts';", 'import {', '  y,', "} from './y.ts';"];
    expect(copiedIn([file('one', ...imports, ...SIX), file('two', ...imports, ...indented)])).toMatchObject({
      compared: 12,
      copied: 6,
    });
  });
});
