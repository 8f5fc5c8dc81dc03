/**
 * Has the digest of a file made by a thread of its own, prints it, and does nothing to end: whatever keeps the process
 * alive after that is not its own.
 */

import { statSync } from 'node:fs';
import process from 'node:process';
import { createDigests } from '../../src/feed/download/digest.ts';

const [, , path = ''] = process.argv;
const digest = await createDigests({
  digestApartFromBytes: 0,
  digestThreads: 1,
  digestLagBytes: 1_000_000,
}).begin(path, statSync(path).size, null);
process.stdout.write(`${await digest.end()}\n`);
