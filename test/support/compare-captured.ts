/** The command that compares a mirror with files, run in this process, and what it prints. */

import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { compare } from '../../fixtures/demo/compare.ts';

export async function compareCaptured(...words: readonly string[]) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const [out, err] = [text(stdout), text(stderr)];
  const exitCode = await compare(words, { stdout, stderr });
  stdout.end();
  stderr.end();
  return { exitCode, stdout: await out, stderr: await err };
}
