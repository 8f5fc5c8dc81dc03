/** One of the processes that play side by side: plays the seeds that it is given, and reports their results. */

import process from 'node:process';
import { playSeeds } from '../simulation/simulate/share.ts';

const [first = '0', step = '1', end = '0'] = process.argv.slice(2);
const seeds: number[] = [];
for (let seed = Number(first); seed < Number(end); seed += Number(step)) seeds.push(seed);
await playSeeds(seeds, (reported) => void process.send?.(reported));
process.disconnect();
