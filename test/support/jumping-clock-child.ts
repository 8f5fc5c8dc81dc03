/**
 * Imported into the program before it starts (`--import`): the clock of its machine is off by as many milliseconds as stand in
 * the file that `CLOCK_OFF_BY` names, once it is there, read again whenever the clock is read. Time that is measured goes
 * on as it does.
 */

import { existsSync, readFileSync } from 'node:fs';
import process from 'node:process';

const RealDate = Date;
const path = process.env['CLOCK_OFF_BY'] ?? '';
const now = (): number => RealDate.now() + (existsSync(path) ? Number(readFileSync(path, 'utf8')) : 0);

globalThis.Date = new Proxy(RealDate, {
  construct: (target, values, newTarget) =>
    Reflect.construct(target, values.length === 0 ? [now()] : values, newTarget),
  get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
});
