/** Bytes that are damaged at random, and always the same by the same seed. */

/** What means something to a parser of JSON, YAML, headers or numbers. */
const TOKENS = [
  ...[
    '{',
    '}',
    '[',
    ']',
    '"',
    ':',
    ',',
    '\\',
    '\n',
    ' ',
    '\0',
    '\ufeff',
    '\u{1f600}',
    '\\ud800',
    '\r\n',
    '\t',
    '#',
  ],
  ...[
    'null',
    'true',
    '-0',
    '1e309',
    '-1',
    '9007199254740993',
    '18446744073709551616',
    '1.5',
    'NaN',
    '0x10',
    '1_000',
  ],
  ...[
    '__proto__',
    'constructor',
    '&a',
    '*a',
    '<<: ',
    '!!binary ',
    '---\n',
    '...',
    '|',
    '>-',
    '? ',
    '%YAML 1.2\n',
  ],
  ...[
    'evt_',
    '2024-02-30T00:00:00Z',
    'Sun, 06 Nov 1994 08:49:37 GMT',
    'GMT',
    'v1,',
    'v1a,',
    'PAR1',
    'whsec_',
    '=',
    '\u0024{X}',
  ],
].map((token) => Buffer.from(token));
const EXTREME_BYTES = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
const MOST_DAMAGES = 6;
const MOST_REPEATS = 4_000;
const LARGEST_BYTES = 2_000_000;

/** `others` are further examples to take pieces from. */
export function mutated(bytes: Buffer, others: readonly Buffer[], random: () => number): Buffer {
  const upTo = (count: number): number => Math.floor(random() * count);
  let changed = Buffer.from(bytes);
  const piece = (of: Buffer, most: number): Buffer => {
    const from = upTo(of.length + 1);
    return of.subarray(from, from + upTo(most));
  };
  const insert = (inserted: Buffer): Buffer => {
    const at = upTo(changed.length + 1);
    return Buffer.concat([changed.subarray(0, at), inserted, changed.subarray(at)]);
  };
  const kinds: readonly (() => Buffer)[] = [
    () => setByte(changed, upTo(changed.length), (byte) => byte ^ (1 << upTo(8))),
    () => setByte(changed, upTo(changed.length), () => EXTREME_BYTES[upTo(EXTREME_BYTES.length)] ?? 0),
    () => setByte(changed, upTo(changed.length), (byte) => byte + upTo(9) - 4),
    () => insert(TOKENS[upTo(TOKENS.length)] ?? Buffer.alloc(0)),
    () => insert(piece(changed, 64)),
    () => insert(piece(others[upTo(others.length)] ?? changed, 400)),
    () => {
      const at = upTo(changed.length + 1);
      return Buffer.concat([changed.subarray(0, at), changed.subarray(at + upTo(32))]);
    },
    () => changed.subarray(0, upTo(changed.length + 1)),
    () => insert(Buffer.concat(Array(upTo(MOST_REPEATS)).fill(TOKENS[upTo(TOKENS.length)] ?? changed))),
    () => insert(Buffer.concat(Array(upTo(MOST_REPEATS)).fill(piece(changed, 12)))),
  ];
  for (let left = upTo(MOST_DAMAGES) + 1; left > 0; left -= 1) {
    changed = Buffer.from((kinds[upTo(kinds.length)]?.() ?? changed).subarray(0, LARGEST_BYTES));
  }
  return changed;
}

/** Values that are no more than JSON, in the place of others. */
const JSON_VALUES = [
  ...[
    'null',
    'true',
    '-0',
    '1e308',
    '1e999',
    '9007199254740993',
    '-1',
    '1.5',
    '""',
    '"\\ud800"',
    '"\\u0000"',
    '[]',
    '{}',
  ],
  ...[
    '"evt_9223372036854775808"',
    '"2024-02-30T00:00:00Z"',
    '[[[[]]]]',
    '{"__proto__":{"id":1}}',
    '"\\u001b[31m"',
  ],
];
const JSON_VALUE = /"(?:[^"\\\\]|\\\\.)*"(?=\s*[,\]}])|-?\d+(?:\.\d+)?|true|false|null|\[\]|\{\}/g;

/** Stays JSON mostly: values are replaced, and lists or objects are put around them. */
export function mutatedJson(bytes: Buffer, random: () => number): Buffer {
  const depth = random() < 0.05 ? Math.floor(random() * 100_000) : Math.floor(random() * 3);
  const share = random() / 4;
  const text = bytes.toString('utf8').replaceAll(JSON_VALUE, (value) => {
    if (random() > share) return value;
    const other = JSON_VALUES[Math.floor(random() * JSON_VALUES.length)] ?? value;
    return random() < 0.2 ? `${'['.repeat(depth)}${other}${']'.repeat(depth)}` : other;
  });
  return Buffer.from(text.slice(0, LARGEST_BYTES));
}

function setByte(bytes: Buffer, at: number, change: (byte: number) => number): Buffer {
  const set = Buffer.from(bytes);
  if (at < set.length) set[at] = change(set[at] ?? 0) & 0xff;
  return set;
}
