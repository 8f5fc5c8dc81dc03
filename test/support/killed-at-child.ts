/**
 * Imported into the program before it starts (`--import`): it is ended with SIGKILL just before or after a durable effect,
 * which KILL_AT names: `before destination.publish`.
 */

import process from 'node:process';

const { KILL_AT } = process.env;
const { observeDurableEffects } = await import(new URL('../../dist/lib/durable.js', import.meta.url).href);

observeDurableEffects((name: string, moment: string) => {
  if (`${moment} ${name}` === KILL_AT) process.kill(process.pid, 'SIGKILL');
});
