/** The command line of `npm run simulate`. */

import { describe, expect, it } from 'vitest';
import { readCommandLine, UsageError } from './simulate/command-line.ts';

describe('the command line of npm run simulate', () => {
  it('reads a seed, a number of histories and a number of processes', () => {
    expect(readCommandLine([])).toEqual({ seed: 1, histories: 1_000, processes: null });
    expect(readCommandLine(['--seed', '7', '--histories', '20', '--processes', '2'])).toEqual({
      seed: 7,
      histories: 20,
      processes: 2,
    });
  });

  it('returns null for --help', () => {
    expect(readCommandLine(['--seed', '7', '--help'])).toBeNull();
  });

  it.each([
    ['--histories', '0'],
    ['--seed', '-1'],
    ['--seed', '1.5'],
    ['--processes', 'all'],
    ['--seeds', '1'],
    ['more', 'words'],
  ])('refuses the arguments %s %s', (...words) => {
    expect(() => readCommandLine(words)).toThrow(UsageError);
  });
});
