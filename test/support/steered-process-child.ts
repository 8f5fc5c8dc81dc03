/**
 * Imported into a process of the program before its main file: sets its wall clock, and kills it at the nth of the
 * moments just before and just after its durable effects. What it needs is in the variables of its environment.
 */

import process from 'node:process';

const { STEERED_NOW_MS, STEERED_KILL_AT } = process.env;
const dist = new URL('../../dist/', import.meta.url);

if (STEERED_NOW_MS !== undefined) {
  const { systemClock } = await import(new URL('lib/clock.js', dist).href);
  const offsetMs = Number(STEERED_NOW_MS) - Date.now();
  systemClock.now = () => new Date(Date.now() + offsetMs);
}

if (STEERED_KILL_AT !== undefined) {
  const { observeDurableEffects } = await import(new URL('lib/durable.js', dist).href);
  let momentsLeft = Number(STEERED_KILL_AT);
  observeDurableEffects(() => {
    momentsLeft -= 1;
    if (momentsLeft === 0) process.kill(process.pid, 'SIGKILL');
  });
}
