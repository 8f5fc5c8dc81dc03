/** A `systemd-notify` that stands first in PATH and writes down what it is given. */

import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { onTestFinished } from 'vitest';

export interface Recording {
  /** What PATH has to be for it to be found. */
  readonly path: string;
  /** A line for each call: its words, each with a bar after it, and the number of our variables that it was given. */
  reported(): readonly string[];
}

export function recordingSystemdNotify(): Recording {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-notify-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const record = join(folder, 'notifications');
  const program = join(folder, 'systemd-notify');
  writeFileSync(record, '');
  writeFileSync(program, `#!/bin/sh\n(printf '%s|' "$@"; env | grep -c FEED_SYNC_ ) >> '${record}'\n`);
  chmodSync(program, 0o755);
  const reported = (): readonly string[] => readFileSync(record, 'utf8').trimEnd().split('\n');
  return { path: `${folder}:${process.env['PATH']}`, reported };
}
