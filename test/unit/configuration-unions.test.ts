/** How the setting of unions is read. */

import { describe, expect, it } from 'vitest';
import { loadFile, problemsOf, REQUIRED } from '../support/configuration.ts';

const REQUIRED_FILE = `service: { baseUrl: ${REQUIRED.FEED_SYNC_BASE_URL}, apiKey: "${REQUIRED.FEED_SYNC_API_KEY}" }\n`;

const unions = (yaml: string, more = '') =>
  loadFile(`${REQUIRED_FILE}${more}unions: ${yaml}\n`).configuration.unions;

describe('the setting unions', () => {
  it('reads views by name, each with one pattern or several', () => {
    expect(unions('{permits: ["us-*-permits", "fr-*"], parcels: "us-*-parcels"}')).toEqual([
      { name: 'parcels', globs: ['us-*-parcels'] },
      { name: 'permits', globs: ['us-*-permits', 'fr-*'] },
    ]);
    expect(unions('{}')).toEqual([]);
    expect(unions('')).toEqual([]);
  });

  it('reads views that are called like members of every object', () => {
    expect(unions('{__proto__: "us-*", constructor: "fr-*", tostring: "de-*"}')).toEqual([
      { name: '__proto__', globs: ['us-*'] },
      { name: 'constructor', globs: ['fr-*'] },
      { name: 'tostring', globs: ['de-*'] },
    ]);
    expect(problemsOf(() => unions('{__proto__: 5}')).join('\n')).toContain("for the view '__proto__'");
  });

  it.each([
    ['[parcels]', 'unions is a list; write for example {parcels: "us-*-parcels"}'],
    ['parcels', "unions is the text 'parcels'; write for example"],
    ['{Parcels: "*"}', "unions has the view 'Parcels'; a name has lower-case letters, digits and _"],
    ['{1st: "*"}', "unions has the view '1st'"],
    [`{${'x'.repeat(64)}: "*"}`, 'at most 63'],
    ['{parcels: []}', "unions has no patterns of ids for the view 'parcels'"],
    ['{parcels: 5}', "unions has no patterns of ids for the view 'parcels'"],
    ['{parcels: }', "unions has no patterns of ids for the view 'parcels'"],
    ['{parcels: "!us-*"}', "unions has no patterns of ids for the view 'parcels'"],
  ])('refuses %s as the setting unions', (yaml, problem) => {
    expect(problemsOf(() => unions(yaml)).join('\n')).toContain(problem);
  });

  it('accepts unions for PostgreSQL, too', () => {
    const more = 'destination: { url: "postgres://a:b@db.example.com/county" }\n';
    expect(unions('{parcels: "*"}', more)).toEqual([{ name: 'parcels', globs: ['*'] }]);
  });
});
