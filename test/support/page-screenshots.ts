/** Where screenshots of the status page are; `RENEW_SCREENSHOTS=1` takes them anew. */

import { join } from 'node:path';
import process from 'node:process';

export const renewScreenshots = process.env['RENEW_SCREENSHOTS'] === '1';

/** `docs/screenshots/one-suspended.png`. */
export function screenshotPath(what: string): string {
  return join(import.meta.dirname, '../../docs/screenshots', `${what.replaceAll(/\W+/g, '-')}.png`);
}
