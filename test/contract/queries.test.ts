/** Commands and addresses that only report write to neither store, even where a catch-up would write at once. */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openAt, suspensionOf } from '../support/checkpoint-files.ts';
import { commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';

it('a query changes neither the checkpoint nor the mirror, though a suspension could be lifted and a version applied', async () => {
  const { feed, datasetIds } = await countyFeed({ kinds: ['zoning'], rowsPerDataset: 10 });
  const installed = commandLine({ feed, now: () => feed.clock.now() });
  onTestFinished(() => installed.remove());
  expect((await installed.run('once')).exitCode).toBe(0);
  const checkpointPath = join(installed.dataDirectory, 'checkpoint.sqlite');
  const checkpoint = await openAt(checkpointPath);
  checkpoint.suspend({ ...suspensionOf({ kind: 'workspace' }), keyHash: 'of another key' });
  checkpoint.close();
  feed.publisher.resync(datasetIds[0] ?? '', 'source_retired');
  const stores = ['checkpoint.sqlite', 'mirror.duckdb'].map((name) => join(installed.dataDirectory, name));
  const digests = () => stores.map((path) => createHash('sha256').update(readFileSync(path)).digest('hex'));
  const before = digests();
  for (const words of ['status', 'status --json', 'verify', 'verify --json', 'doctor', 'once --dry-run']) {
    const { exitCode, stderr } = await installed.run(...words.split(' '));
    expect([0, 65, 77], `${words}: ${stderr}`).toContain(exitCode);
    expect(digests(), words).toEqual(before);
  }
});
