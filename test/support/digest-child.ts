/** Prints the digest that a thread computes of a file, and does not exit by itself: only a thread that is left could keep it alive. */

import { statSync } from 'node:fs';
import process from 'node:process';
import { createDigests } from '../../src/feed/download/digest.ts';

const [, , path = ''] = process.argv;
const { size } = statSync(path);
const digest = createDigests(0).begin(path, size, null);
process.stdout.write(`${await digest.end(size)}\n`);
