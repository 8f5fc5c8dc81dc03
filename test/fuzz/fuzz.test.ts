/** A short run of `npm run fuzz`, always the same: damaged bytes for everything that reads the bytes of others. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { parseGeoMetadata } from '../../src/staging/snapshot/parquet.ts';
import { SEED } from '../support/seed.ts';
import { play } from './fuzz.ts';
import { corpus, openFuzzEngine, targets } from './targets.ts';

const CASES = 1_500;

it('reads damaged answers, files, headers and settings, or refuses them by an error of the program', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-fuzz-'));
  const engine = await openFuzzEngine(folder);
  onTestFinished(() => {
    engine.close();
    rmSync(folder, { recursive: true });
  });
  const all = targets(engine, folder);
  const examples = corpus();
  const seen = new Set<string>();
  for (let number = 0; number < CASES; number += 1) {
    const { target, kind } = await play(SEED, number, all, examples);
    seen.add(`${target} ${kind}`);
  }
  // Every target is reached, and what can refuse has refused.
  expect([...seen].toSorted()).toEqual([
    ...[
      'changes read',
      'changes refused',
      'geo read',
      'json read',
      'json refused',
      'parquet read',
      'parquet refused',
    ],
    ...['retry-after read', 'webhook read', 'yaml read'],
  ]);
});

it('refuses geo metadata that is nested more deeply than the stack allows', () => {
  const deep = `${'['.repeat(60_000)}${']'.repeat(60_000)}`;
  const columns = { geometry: { encoding: 'WKB', geometry_types: [], crs: 'CRS' } };
  const text = JSON.stringify({ version: '1.1.0', primary_column: 'geometry', columns });
  expect(parseGeoMetadata(text)?.columns.get('geometry')?.crs).toBe('CRS');
  expect(parseGeoMetadata(text.replace('"CRS"', deep))).toBeNull();
});
