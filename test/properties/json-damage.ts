/** JSON documents that are damaged at random: any node replaced, removed, repeated, made another type, or put elsewhere. */

import fc from 'fast-check';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** Stands in texts of a body; messages about the body must not repeat it. */
export const CANARY = 'canary of the body';

/** Names that mean something to programs. */
const HOSTILE_NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'length', '', CANARY] as const;

const EXTREMES: readonly Json[] = [
  -0,
  -1,
  1.5,
  2 ** 53,
  -(2 ** 63),
  1e308,
  5e-324,
  '',
  '\0',
  '\ud800',
  'x\udfff',
  '\u202eevt_1',
  'evt_',
  'evt_-1',
  'evt_9223372036854775807',
  'evt_9223372036854775808',
  'added',
  '2024-02-30T00:00:00Z',
  '2024-02-29T23:59:60Z',
  '0000-01-01T00:00:00+23:59',
  `${CANARY}\n\u001b[31m`,
  CANARY.repeat(1_000),
  [],
  {},
  [[[[[[[[{ [CANARY]: CANARY }]]]]]]]],
  JSON.parse('{"__proto__":{"polluted":"yes"},"constructor":{"prototype":{"polluted":"yes"}}}') as Json,
];

/** Any JSON value, also one with halves of characters in it. */
export const anyJson: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom(...EXTREMES),
  fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' }) as fc.Arbitrary<Json>,
  fc.string({ unit: fc.constantFrom('\ud83d', '\ude00', 'a', '\0', '\\', '"'), maxLength: 4 }),
);

type Path = readonly (string | number)[];

const damage = fc.record({
  /** Which node, counted through the document. */
  node: fc.nat(),
  kind: fc.constantFrom('replace', 'remove', 'repeat', 'wrap', 'spell', 'name', 'move'),
  value: anyJson,
  name: fc.constantFrom(...HOSTILE_NAMES),
});

type Damage = typeof damage extends fc.Arbitrary<infer Value> ? Value : never;

/** The document with up to four things done to it; at times none. It is as `JSON.parse` gives it. */
export function damaged(document: Json): fc.Arbitrary<Json> {
  return fc
    .array(damage, { maxLength: 4 })
    .map((damages) => JSON.parse(JSON.stringify(damages.reduce(damagedOnce, document))) as Json);
}

function damagedOnce(document: Json, { node, kind, value, name }: Damage): Json {
  const paths = pathsOf(document);
  const path = paths[node % paths.length] ?? [];
  const there = valueAt(document, path) ?? null;
  switch (kind) {
    case 'replace':
      return withValueAt(document, path, value);
    case 'remove':
      return withoutValueAt(document, path);
    case 'repeat':
      return withValueAt(
        document,
        path.slice(0, -1),
        repeated(valueAt(document, path.slice(0, -1)), there, name),
      );
    case 'wrap':
      return withValueAt(document, path, node % 2 === 0 ? [there] : Object.fromEntries([[name, there]]));
    case 'spell':
      return withValueAt(document, path, spelledOtherwise(there));
    case 'name':
      return withValueAt(document, path, repeated(there, value, name));
    case 'move':
      return withValueAt(document, path, valueAt(document, paths[(node >>> 8) % paths.length] ?? []) ?? null);
  }
}

function repeated(holder: Json | undefined, value: Json, name: string): Json {
  if (isList(holder)) return [...holder, value];
  return isObject(holder) ? Object.fromEntries([...Object.entries(holder), [name, value]]) : value;
}

/** Numbers as text, text as a number where it is one, truth as a word. */
function spelledOtherwise(value: Json): Json {
  if (typeof value === 'string') return Number.isFinite(Number(value)) ? Number(value) : value.toUpperCase();
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
}

function pathsOf(value: Json, path: Path = []): readonly Path[] {
  return [path, ...entriesOf(value).flatMap(([name, member]) => pathsOf(member, [...path, name]))];
}

/** Undefined where nothing is. */
export function valueAt(document: Json, path: Path): Json | undefined {
  return path.reduce<Json | undefined>((value, step) => {
    if (isList(value)) return value[Number(step)];
    return isObject(value) && Object.hasOwn(value, step) ? value[String(step)] : undefined;
  }, document);
}

/** What lies on the way and is no object or list is left as it is. */
export function withValueAt(document: Json, [step, ...rest]: Path, value: Json): Json {
  if (step === undefined) return value;
  const inside = (member: Json | undefined): Json => withValueAt(member ?? null, rest, value);
  if (isList(document)) return document.toSpliced(Number(step), 1, inside(document[Number(step)]));
  if (!isObject(document)) return document;
  return Object.fromEntries([...Object.entries(document), [step, inside(valueAt(document, [step]))]]);
}

function withoutValueAt(document: Json, path: Path): Json {
  const [last] = path.slice(-1);
  const holder = valueAt(document, path.slice(0, -1));
  if (last === undefined) return null;
  const rest = isList(holder)
    ? holder.toSpliced(Number(last), 1)
    : Object.fromEntries(entriesOf(holder ?? null).filter(([name]) => name !== last));
  return withValueAt(document, path.slice(0, -1), rest);
}

function entriesOf(value: Json): readonly (readonly [string | number, Json])[] {
  if (isList(value)) return value.map((member, index) => [index, member]);
  return isObject(value) ? Object.entries(value) : [];
}

function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

function isObject(value: Json | undefined): value is { readonly [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
