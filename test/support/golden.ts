/**
 * Golden files: the outputs for programs and operators, kept in `test/contract/golden/<output>/<case>` and compared with
 * those of now. `RENEW_GOLDEN=1` writes them again, for a maintainer to read.
 */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { expect } from 'vitest';

const FOLDER = join(import.meta.dirname, '../contract/golden');

/** Compares data by its structure. `name`: `status/everything`. */
export function expectGolden(name: string, data: unknown): void {
  const written = JSON.parse(JSON.stringify(data));
  const path = goldenPath(`${name}.json`, () => `${JSON.stringify(written, null, 2)}\n`);
  expect.soft(written, howToRenew(path)).toEqual(JSON.parse(readFileSync(path, 'utf8')));
}

/** Compares text as it is. `name`: `status/everything.80`. */
export function expectGoldenText(name: string, text: string): void {
  const path = goldenPath(`${name}.txt`, () => text);
  expect.soft(text, howToRenew(path)).toBe(readFileSync(path, 'utf8'));
}

/** `text` with what differs from run to run in braces: folders, addresses. The longest first. */
export function withPlaceholders(text: string, places: Readonly<Record<string, string>>): string {
  return Object.entries(places)
    .sort(([, left], [, right]) => right.length - left.length)
    .reduce((reported, [name, place]) => reported.replaceAll(place, `{${name}}`), text);
}

function goldenPath(name: string, content: () => string): string {
  const path = join(FOLDER, name);
  if (process.env['RENEW_GOLDEN'] === '1') {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content());
  }
  return path;
}

function howToRenew(path: string): string {
  const { testPath } = expect.getState();
  return [
    `${path} says something else. Where the new one is right, write it again and read the difference:`,
    `  RENEW_GOLDEN=1 npx vitest run --project "fast*" ${testPath ?? ''} && git diff test/contract/golden`,
    'Programs rely on these fields: none may go, and none may change its meaning.',
  ].join('\n');
}
