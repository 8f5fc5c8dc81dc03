/**
 * Downloads every file of the one dataset into `directory`, with the program's own client, configured as the program
 * would be. It runs bundled, as the program does.
 */

import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { feedOptions } from '../../src/cli/service-client.ts';
import { loadConfiguration } from '../../src/configuration/configuration.ts';
import { createFeed } from '../../src/feed/create-feed.ts';
import { systemRandom } from '../../src/lib/backoff.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';

const [directory] = process.argv.slice(2);
const { env: environment } = process;
const machine = {
  memoryBytes: totalmem(),
  constrainedMemoryBytes: 0,
  heapBytes: getHeapStatistics().heap_size_limit,
  cores: availableParallelism(),
};
const { configuration } = loadConfiguration({
  environment,
  workingDirectory: directory,
  machine,
  stderrIsTerminal: false,
  flags: {},
  readFile: (path) => readFileSync(path, 'utf8'),
});
const surroundings = { environment, clock: systemClock, random: systemRandom, machine };
const feed = createFeed(feedOptions(configuration, surroundings, silentLog));
const { signal } = new AbortController();
await feed.discover(signal);
const {
  subscriptions: [{ id }],
} = await feed.subscriptions(signal);
const { datasets } = await feed.manifest(id, signal);
const [entry] = datasets;
const refresh = async () => entry;
const download = await feed.download({ entry, directory, refresh, onBytes() {} }, signal);
if (download.kind !== 'complete') throw new Error(download.kind);
await feed.close();
