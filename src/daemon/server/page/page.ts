/**
 * The status page: one file without framework and without anything from another origin. Its script asks for `/page/overview` and
 * `/page/datasets`.
 *
 * Invariant: the browser runs exactly the script and the style of the file, by their digests, and nothing else.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { assert } from '../../../lib/assert.ts';
import { type Answer, OK } from '../answers.ts';

/** Reads the page once, at the start of the server. */
export function pageAnswer(): Answer {
  const body = readFileSync(new URL('status.html', import.meta.url));
  const text = body.toString('utf8');
  const policy = [
    "default-src 'none'",
    `script-src '${digestOf(text, 'script')}'`,
    `style-src '${digestOf(text, 'style')}'`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  const headers = {
    'Content-Security-Policy': policy.join('; '),
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'no-referrer',
  };
  return { status: OK, contentType: 'text/html; charset=utf-8', body, headers };
}

function digestOf(html: string, element: 'script' | 'style'): string {
  const found = [...html.matchAll(new RegExp(`<${element}[^>]*>(.*?)</${element}>`, 'gs'))];
  assert(found.length === 1, `the page has one ${element}`);
  return `sha256-${createHash('sha256')
    .update(found[0]?.[1] ?? '')
    .digest('base64')}`;
}
