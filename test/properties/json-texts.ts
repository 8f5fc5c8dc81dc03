/** Random JSON texts: every value in many spellings, with blanks, members that are there twice, and numbers of any size. */

import fc from 'fast-check';
import { escaped } from './change-values.ts';

const blank = fc.constantFrom('', '', '', ' ', '\n', '\t', '\r\n  ');

const string = fc
  .tuple(
    fc.oneof(
      fc.string({ unit: 'binary', maxLength: 6 }),
      fc.constantFrom('', '/', '\0', '\u007f\u2028', '1.5e-400', 'NaN', ',]', '\\"'),
    ),
    fc.constantFrom(JSON.stringify, escaped, (text: string) => JSON.stringify(text).replaceAll('/', '\\/')),
  )
  .map(([text, spell]) => spell(text));

const digits = (maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength });

/** Any number that JSON can write, most of which no double represents to the last digit. */
export const anyNumber = fc
  .record({
    sign: fc.constantFrom('', '-'),
    whole: fc.oneof(fc.constant('0'), digits(3), digits(24)).map((text) => text.replace(/^0+(?=.)/, '')),
    fraction: fc.oneof(fc.constant(''), digits(4), digits(40)).map((text) => (text === '' ? '' : `.${text}`)),
    exponent: fc.oneof(fc.constant(''), fc.stringMatching(/^[eE][-+]?[0-9]{1,3}$/)),
  })
  .map(({ sign, whole, fraction, exponent }) => `${sign}${whole}${fraction}${exponent}`);

const double = fc.double({ noNaN: true, noDefaultInfinity: true });

/** Numbers that come out of a double as they went in, or do not pass through one. */
export const keptNumber = fc.oneof(
  fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }).map(String),
  double.map((number) => JSON.stringify(number)),
  double.map((number) => number.toExponential().replace('e', 'E')),
  // Halfway between two numbers of 17 digits some programs write the one, and some the other.
  fc.double({ min: -1, max: 1, noNaN: true }).map((number) => number.toPrecision(17)),
  fc.tuple(fc.integer(), digits(5)).map(([whole, fraction]) => `${whole}.${fraction}00`),
  fc.constantFrom('-0', '-0.0', '0e5', '2.50', '1e400', '-1E+400', '18446744073709551616', '5e-324'),
);

const member = fc.tuple(fc.oneof(string, fc.constantFrom('"a"', '"\\u0061"')), blank);

const { value } = fc.letrec<{ value: string; list: string; object: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.oneof(keptNumber, string, fc.constantFrom('null', 'true', 'false')),
    tie('list'),
    tie('object'),
  ),
  list: fc
    .array(fc.tuple(blank, tie('value'), blank), { maxLength: 4 })
    .map((items) => `[${items.map((parts) => parts.join('')).join()}]`),
  object: fc
    .array(fc.tuple(blank, member, blank, tie('value')), { maxLength: 4 })
    .map(
      (members) =>
        `{${members.map(([before, [name, after], between, item]) => `${before}${name}${after}:${between}${item}`).join()}}`,
    ),
}));

/** Of any value, without a number that would lose digits. */
export const jsonText = fc.tuple(blank, value, blank).map((parts) => parts.join(''));
