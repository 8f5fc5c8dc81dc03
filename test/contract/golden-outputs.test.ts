/** What the page about outputs says, and the content of the golden files agree: every field, its type, and whether it may be null. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Documented, documentedOutputs, foundIn } from '../support/documented-outputs.ts';

/** The folder of golden files of each output, and the section that documents it. Those of `query` have the columns of the query. */
const SECTIONS = {
  status: 'status --json',
  once: 'once --json',
  subscriptions: 'subscriptions --json',
  coverage: 'coverage --json',
  watches: 'watches --json',
  verify: 'verify --json',
  'dry-run': 'once --dry-run --json',
  doctor: 'doctor --json',
  compact: 'compact --json',
  hook: 'hooks.afterCommit',
  log: 'The log',
} as const;
const WITHOUT_FIELDS = ['query', 'summary'];

const ALL = documentedOutputs();

/** What every output has at a field that several of them share: null may be in another's. */
const shared = new Map<string, unknown[]>();
for (const [output, section] of Object.entries(SECTIONS)) {
  const documented = fieldsOf(section);
  for (const [path, values] of foundIn(output, documented)) {
    const name = documented.get(path)?.shared ?? `${output} ${path}`;
    shared.set(name, [...(shared.get(name) ?? []), ...values]);
  }
}

it('every folder of golden files has a section', () => {
  const folders = readdirSync(join(import.meta.dirname, 'golden'));
  expect(folders.toSorted()).toEqual([...Object.keys(SECTIONS), ...WITHOUT_FIELDS].toSorted());
});

describe.each(Object.entries(SECTIONS))('the output of %s', (output, section) => {
  const documented = fieldsOf(section);

  it('the golden files have the fields that are documented, and no others', () => {
    expect([...foundIn(output, documented).keys()].toSorted()).toEqual([...documented.keys()].toSorted());
  });

  it.each([...documented])('%s has its type, and is null where it may be, and only there', (path, field) => {
    const values = shared.get(field.shared ?? `${output} ${path}`) ?? [];
    expect(values.includes(null), 'whether a golden file has null').toBe(field.isNullable);
    const present = values.filter((value) => value !== null);
    expect(present.length, 'golden files in which it is not null').toBeGreaterThan(0);
    for (const value of present) expect(typeOf(value, field.type)).toBe(field.type);
    if (field.words.length > 0) expect(field.words).toEqual(expect.arrayContaining(present));
  });
});

function fieldsOf(section: string): ReadonlyMap<string, Documented> {
  const documented = ALL.get(section);
  if (documented === undefined) throw new Error(`src/cli/outputs.md has no section ${section}`);
  return documented;
}

/** Of what JSON cannot tell apart, `documented` where the value can be it. */
function typeOf(value: unknown, documented: string): string {
  if (Array.isArray(value)) {
    const isOfText = value.every((one) => typeof one === 'string');
    return documented === 'list of text' && isOfText ? documented : 'list';
  }
  if (typeof value === 'object') return documented.startsWith('map') ? documented : 'object';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  if (typeof value !== 'string') return typeof value;
  return documented === 'time' && isTime(value) ? 'time' : 'text';
}

function isTime(value: string): boolean {
  return new Date(value).toISOString() === value;
}
