/** What `feed-sync doctor` reports to people and programs, kept in golden files. */

import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { type Diagnosis, renderDiagnosis } from '../../src/cli/doctor/doctor.ts';
import { failureOf, NOON_CLOCK, openAt, suspensionOf } from '../support/checkpoint-files.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectGolden, expectGoldenText, withPlaceholders } from '../support/golden.ts';
import { localInstallation } from '../support/local-installation.ts';

/** Of the settings some, so that not every new one changes these files. */
const SETTINGS_REPORTED = ['service.baseUrl', 'service.apiKey', 'service.apiKeyFile', 'dataDir', 'lock.wait'];

/** What differs between runs and machines. */
const VARYING: readonly (readonly [RegExp, string])[] = [
  [/\b\d+(?:\.\d+)? m?s\b/g, '{time}'],
  [/\([\d.]+ [KMGT]?B free\)/g, '({size} free)'],
  [/\([\d.]+ [KMGT]?B, format \d+/g, '({size}, format {format}'],
  [/\(format \d+\)/g, '(format {format})'],
  [/(DuckDB|SQLite) [\d.]+/g, '$1 {version}'],
  [/formats: checkpoint \d+, mirror \d+/g, 'formats: {formats}'],
];

function expectReported(name: string, diagnosis: Diagnosis, places: Readonly<Record<string, string>>): void {
  const { checks, problems, warnings, skipped, exitCode } = diagnosis;
  const settings = diagnosis.settings.filter(({ key }) => SETTINGS_REPORTED.includes(key));
  const text = JSON.stringify({ checks, settings, problems, warnings, skipped, exitCode });
  const steady = VARYING.reduce(
    (rest, [what, by]) => rest.replaceAll(what, by),
    withPlaceholders(text, places),
  );
  const reported: Diagnosis = JSON.parse(steady);
  expectGolden(`doctor/${name}`, reported);
  expectGoldenText(`doctor/${name}`, `${renderDiagnosis(reported)}\n`);
}

it('doctor reports an installation in which everything is as it should be', async () => {
  const { feed } = await countyFeed({ kinds: ['zoning'], rowsPerDataset: 5 });
  const one = localInstallation({ feed });
  expect(await one.run('once')).toMatchObject({ exitCode: 0 });
  // The program makes its files for the owner alone; this process is not the program.
  chmodSync(one.mirrorPath, 0o600);
  const places = { home: one.home, host: new URL(feed.baseUrl).host };
  const { of: _of, all: _all, ...diagnosis } = await one.diagnose();
  expectReported('sound', diagnosis, places);
});

it('doctor reports problems, warnings and skipped checks', async () => {
  const { feed } = await countyFeed({ kinds: ['zoning'], rowsPerDataset: 5 });
  const one = localInstallation({ feed, environment: { FEED_SYNC_LOCK_WAIT: 'long' } });
  mkdirSync(one.dataDirectory, { mode: 0o755 });
  const checkpoint = await openAt(one.checkpointPath, undefined, NOON_CLOCK);
  checkpoint.suspend(
    suspensionOf({ kind: 'dataset', datasetId: 'us-tx-travis-parcels' }, 'The county is not covered.'),
  );
  checkpoint.fail(failureOf('us-tx-travis-roads'));
  writeFileSync(one.mirrorPath, '', { mode: 0o600 });
  feed.keys.get(feed.apiKey).scopes = [];
  const places = { home: one.home, host: new URL(feed.baseUrl).host };
  const { of: _of, all: _all, ...diagnosis } = await one.diagnose();
  expectReported('problems', diagnosis, places);
});
