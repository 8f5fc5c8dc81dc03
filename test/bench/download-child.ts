/**
 * Downloads every file of the one dataset into `directory`, with the program's own client, configured as the program
 * would be. It runs bundled, as the program does.
 */

import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import { feedOptions } from '../../src/cli/service-client.ts';
import { loadConfiguration } from '../../src/configuration/configuration.ts';
import { createFeed } from '../../src/feed/create-feed.ts';
import { systemRandom } from '../../src/lib/backoff.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';

const [directory = ''] = process.argv.slice(2);
const { env: environment } = process;
const machine = {
  memoryBytes: totalmem(),
  constrainedMemoryBytes: process.constrainedMemory(),
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
const [subscription] = (await feed.subscriptions(signal)).subscriptions;
if (subscription === undefined) throw new Error('The feed has no subscription.');
const [entry] = (await feed.manifest(subscription.id, signal)).datasets;
if (entry === undefined) throw new Error('The subscription has no dataset.');
const download = await feed.download({ entry, directory, refresh: async () => entry, onBytes() {} }, signal);
if (download.kind !== 'complete') throw new Error(download.kind);
await feed.close();
