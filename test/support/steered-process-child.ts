/**
 * Imported into a process of the program before its main file (`--import`): sets its wall clock, records the points
 * just before and just after its durable effects, and kills it at one of them. What it needs is in the variables of its
 * environment; steered-process.ts sets them.
 */

import { openSync, writeSync } from 'node:fs';
import process from 'node:process';

const { STEERED_NOW_MS, STEERED_RECORD, STEERED_KILL_AT } = process.env;
const dist = new URL('../../dist/', import.meta.url);

if (STEERED_NOW_MS !== undefined) {
  const { systemClock } = await import(new URL('clock.js', dist).href);
  const offsetMs = Number(STEERED_NOW_MS) - Date.now();
  systemClock.now = () => new Date(Date.now() + offsetMs);
}

if (STEERED_RECORD !== undefined || STEERED_KILL_AT !== undefined) {
  const record = STEERED_RECORD === undefined ? null : openSync(STEERED_RECORD, 'a');
  const kill = STEERED_KILL_AT === undefined ? () => {} : killAt(STEERED_KILL_AT);
  const { observeDurableEffects } = await import(new URL('files.js', dist).href);
  observeDurableEffects((name: string, timestamp: string) => {
    if (record !== null) writeSync(record, `${timestamp} ${name}\n`);
    kill(`${timestamp} ${name}`);
  });
}

/** `7`: at the seventh point, whatever it is; `before destination.commit 2`: at the second of that name and kind. */
function killAt(setting: string): (timestamp: string) => void {
  const [, named, occurrence = '1'] = /^(\w+ [^ ]+)?(?: ?(\d+))?$/.exec(setting) ?? [];
  let momentsLeft = Number(occurrence);
  return (timestamp) => {
    if (named !== undefined && named !== timestamp) return;
    momentsLeft -= 1;
    if (momentsLeft === 0) process.kill(process.pid, 'SIGKILL');
  };
}
