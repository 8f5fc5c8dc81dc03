/** What a command has said after a service sent hostile texts. */

import { expect } from 'vitest';
import type { Said } from '../support/command-line.ts';
import { ACTIVE, FORGED } from './hostile-texts.ts';

/** Every line is ours: none was begun by what the service sent, and none makes a terminal act. */
export function expectHarmless(said: Said, about: string): void {
  expect([0, 65, 75, 77, 78], `${about}\n${said.stderr}`).toContain(said.exitCode);
  for (const line of `${said.stdout}\n${said.stderr}`.split('\n')) {
    expect(line, about).not.toMatch(ACTIVE);
    expect(line.startsWith(FORGED), `${about}: ${line}`).toBe(false);
    expect(line, about).not.toMatch(/^\{"level":"error","msg":"FORGED/);
  }
}
