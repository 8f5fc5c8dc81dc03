/** The demo on the real datasets: their whole histories, version by version, and a cursor that expires in the middle. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compareCaptured } from '../support/compare-captured.ts';
import { runDemo } from '../support/demo-process.ts';
import { writeChangedCopy } from '../support/mirror-file.ts';
import { realDataDirectory } from '../support/real-data.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'demo-real-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const realData = realDataDirectory();

describe.skipIf(realData === null)('the demo on the real datasets', () => {
  const data = realData ?? '';
  const dataDirectory = () => join(folder, 'real');
  const mirror = () => join(dataDirectory(), 'mirror.duckdb');
  beforeAll(async () => {
    const { exitCode, stdout, stderr } = await runDemo(['--data', data, '--data-dir', dataDirectory()]);
    expect([exitCode, stderr]).toEqual([0, expect.anything()]);
    expect(stdout).toContain(`ourairports-navaids: 24 versions, 24 equal
ca-on-toronto-short-term-rentals: 31 versions, 31 equal
us-counties: 1 version, 1 equal
`);
    expect(stdout).toContain(`ourairports-navaids: 2 versions, 2 equal
ca-on-toronto-short-term-rentals: 3 versions, 3 equal
us-counties: 1 version, 1 equal
`);
    // The empty version, and the one that brings all rows back.
    expect(stdout).toContain('ourairports-navaids version 14: 0 rows, 21 columns, equal');
    expect(stderr).toContain('The position in the log has expired: starting from the manifest.');
  });

  /** The dataset, a change to it, and the line that reports it. */
  const flips: readonly (readonly [string, string, RegExp])[] = [
    [
      'ca-on-toronto-short-term-rentals',
      `UPDATE ca_on_toronto_short_term_rentals SET address = address || ' ' WHERE operator_registration_number = 'STR-2009-FFWHBB'`,
      /column "address": 1 cell different, first at operator_registration_number = "STR-2009-FFWHBB"\n {4}file {4}"9 Highhill Dr"\n {4}mirror {2}"9 Highhill Dr "\n/,
    ],
    [
      'ourairports-navaids',
      'UPDATE ourairports_navaids SET latitude_deg = 52.558898925781257 WHERE id = 85050',
      /column "latitude_deg": 1 cell different, first at id = 85050\n {4}file {4}52\.55889892578125\n {4}mirror {2}52\.55889892578126\n/,
    ],
    [
      'us-counties',
      `UPDATE us_counties SET geometry = replace(ST_AsText(geometry), '32.344437', '32.344438') WHERE fips = '01001'`,
      /column "geometry": 1 cell different, first at fips = "01001"\n {4}file .*32\.344437,.*\n {4}mirror .*32\.344438,.*\n/,
    ],
    [
      'us-counties',
      `DELETE FROM us_counties WHERE fips = '01009'`,
      /1 key only in the file, first fips = "01009"/,
    ],
  ];
  it.each(flips)(
    'the comparison finds one change of %s in the mirror of the demo',
    async (datasetId, change, reported) => {
      const changed = join(folder, 'changed.duckdb');
      await writeChangedCopy(mirror(), changed, change);
      const { exitCode, stdout } = await compareCaptured('--mirror', changed, '--data', data);
      expect(stdout).toMatch(reported);
      expect(stdout).toContain(`${datasetId}: 1 version, 0 equal\n`);
      expect(stdout.match(/: 1 version, 1 equal$/gm)).toHaveLength(2);
      expect(exitCode).toBe(1);
    },
  );
});
