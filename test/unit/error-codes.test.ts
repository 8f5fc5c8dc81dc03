/** Error codes: the page that documents them, and that nothing is decided or shown by the name of a class. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ERRORS } from '../../src/model/error-codes.ts';
import { errorCodeOf, UsageError } from '../../src/model/errors.ts';
import { ERROR_PAGE, errorPage } from '../docs/error-page.ts';
import { projectRoot, sourceFiles } from '../support/source-tree.ts';

describe('error codes', () => {
  it('documents every error code on a page that `npm run docs` has brought up to date', () => {
    expect(readFileSync(join(projectRoot, ERROR_PAGE), 'utf8')).toBe(errorPage());
  });

  it('writes every error code in snake_case', () => {
    for (const code of Object.keys(ERRORS)) expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
  });

  it('gives our own errors their codes, and every other error the code bug', () => {
    expect(errorCodeOf(new UsageError('x'))).toBe('usage_invalid');
    expect(errorCodeOf(new TypeError('x'))).toBe('bug');
    expect(errorCodeOf('x')).toBe('bug');
  });

  it('distinguishes errors by their codes everywhere in the source, never by the name of a class', async () => {
    const byName = /\b(?:error|cause|[A-Z]\w*Error)\.name\b|\.constructor\.name\b/;
    const found = (await sourceFiles('src')).filter(({ code }) => byName.test(code));
    expect(found.map(({ path }) => path)).toEqual([]);
  });
});
