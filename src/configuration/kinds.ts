/**
 * How the values of settings are read: one `Kind` for durations, sizes, lists and so on. A reading gives the value
 * or the trouble with it, as the part of a sentence that follows the key: "is 'abc', which is not a duration; …".
 *
 * Invariant: a kind for secrets never puts any part of a value into its trouble.
 */

import { resolve } from 'node:path';
import { Secret } from '../lib/secret.ts';
import { parseDurationMs, parseSizeBytes } from '../lib/units.ts';
import { quoted } from './problems.ts';

export type Reading<Value> = { readonly value: Value } | { readonly trouble: string };

export interface Kind<Value> {
  /** What stands for a value in help texts: `duration`. */
  readonly placeholder: string;
  /** Reads what stands in a flag or a variable, trimmed and not empty. Relative paths start at `directory`. */
  readText(text: string, directory: string): Reading<Value>;
  /** Reads a value of the file, as YAML gives it, never null. Relative paths start at `directory`. */
  readYaml(value: unknown, directory: string): Reading<Value>;
}

interface ScalarOptions<Value> {
  readonly placeholder: string;
  /** What to write, after "write": `for example 30s or 5m`. */
  readonly advice: string;
  readonly readText: (text: string, directory: string) => Reading<Value>;
  readonly acceptsNumbers?: boolean;
}

/** A kind whose values are one piece of text, in the file too. */
export function scalar<Value>(options: ScalarOptions<Value>): Kind<Value> {
  return {
    placeholder: options.placeholder,
    readText: options.readText,
    readYaml(value, directory) {
      const isText = typeof value === 'string' || (typeof value === 'number' && options.acceptsNumbers);
      if (!isText) return { trouble: `is ${shapeOf(value)}; write ${options.advice}` };
      const text = String(value).trim();
      return text === '' ? { trouble: 'is empty' } : options.readText(text, directory);
    },
  };
}

interface Range {
  /** Smallest and largest value, both allowed, as a person writes them. */
  readonly min: string;
  readonly max: string;
  /** Why less is refused, as a clause, where the number does not say so by itself. */
  readonly whyMin?: string;
}

/** Milliseconds. */
export function duration(range: Range): Kind<number> {
  return measure({ noun: 'duration', advice: 'for example 30s or 5m', parse: parseDurationMs, ...range });
}

/** Bytes. */
export function size(range: Range): Kind<number> {
  return measure({ noun: 'size', advice: 'for example 64MB or 4GB', parse: parseSizeBytes, ...range });
}

/** A whole number. */
export function count(range: Range): Kind<number> {
  const parse = (text: string) => (/^\d{1,9}$/.test(text) ? Number(text) : null);
  const advice = `a number from ${range.min} to ${range.max}`;
  return measure({ noun: 'whole number', advice, parse, acceptsNumbers: true, ...range });
}

interface MeasureOptions extends Range {
  readonly noun: string;
  readonly advice: string;
  readonly parse: (text: string) => number | null;
  readonly acceptsNumbers?: boolean;
}

function measure(options: MeasureOptions): Kind<number> {
  const { noun, advice, parse, min, max, whyMin, acceptsNumbers = false } = options;
  const readText = (text: string): Reading<number> => {
    const value = parse(text);
    if (value === null) {
      const fault = /^\d+$/.test(text) && !acceptsNumbers ? 'has no unit' : `is not a ${noun}`;
      return { trouble: `is ${quoted(text)}, which ${fault}; write ${advice}` };
    }
    if (value < (parse(min) ?? Number.NaN)) {
      const why = whyMin === undefined ? '' : `: ${whyMin}`;
      return { trouble: `is ${quoted(text)}, and the least is ${min}${why}` };
    }
    if (value > (parse(max) ?? Number.NaN)) return { trouble: `is ${quoted(text)}, and the most is ${max}` };
    return { value };
  };
  return scalar({ placeholder: acceptsNumbers ? 'number' : noun, advice, readText, acceptsNumbers });
}

/** One of a few words. */
export function choice<const Word extends string>(words: readonly Word[]): Kind<Word> {
  const advice = `one of ${words.join(', ')}`;
  return scalar({
    placeholder: words.join('|'),
    advice,
    readText: (text) => {
      const word = words.find((candidate) => candidate === text);
      return word === undefined ? { trouble: `is ${quoted(text)}; write ${advice}` } : { value: word };
    },
  });
}

/** The absolute path of a file or a folder, which need not exist. */
export function path(names: 'file' | 'folder'): Kind<string> {
  return scalar({
    placeholder: names,
    advice: `the path of a ${names}, in quotes`,
    readText: (text, directory) => {
      const refuse = (fault: string) => ({ trouble: `is ${quoted(text)}, ${fault}` });
      if (text.includes('\0')) return refuse('which no path can hold');
      if (text.startsWith('~')) return refuse('and ~ has no meaning here; write the whole path');
      if (names === 'file' && /[/\\]$/.test(text)) return refuse('which is a folder; name the file in it');
      return { value: resolve(directory, text) };
    },
  });
}

const MAX_SECRET_CHARACTERS = 4_096;

/** A key or password that can stand in a header: visible ASCII without white space. */
export const secret: Kind<Secret> = {
  placeholder: 'key',
  readText(text) {
    if (text.length > MAX_SECRET_CHARACTERS) {
      return { trouble: `is longer than ${MAX_SECRET_CHARACTERS} characters; is it the key alone?` };
    }
    if (!/^[\x21-\x7e]+$/.test(text)) {
      return {
        trouble: 'holds white space, a control character or a letter outside ASCII, which no key does',
      };
    }
    return { value: new Secret(text) };
  },
  readYaml(value, directory) {
    if (typeof value !== 'string') return { trouble: 'is not text; put it in quotes' };
    const text = value.trim();
    return text === '' ? { trouble: 'is empty' } : secret.readText(text, directory);
  },
};

/** Several values: separated by commas in a flag or variable, a list in the file. */
export function list<Value>(
  item: Kind<Value>,
  emptiness: 'may be empty' | 'not empty',
): Kind<readonly Value[]> {
  const readItems = (readings: readonly Reading<Value>[]): Reading<readonly Value[]> => {
    const troubles = readings.flatMap((reading, index) =>
      'trouble' in reading ? [`item ${index + 1} ${reading.trouble}`] : [],
    );
    if (troubles.length > 0) return { trouble: troubles.join('; ') };
    const values = readings.flatMap((reading) => ('value' in reading ? [reading.value] : []));
    if (values.length > 0 || emptiness === 'may be empty') return { value: values };
    return { trouble: 'is an empty list; name at least one, or leave it out for all' };
  };
  return {
    placeholder: `${item.placeholder},…`,
    readText: (text, directory) => {
      const items = text.split(',').map((part) => part.trim());
      return readItems(items.filter((part) => part !== '').map((part) => item.readText(part, directory)));
    },
    readYaml: (value, directory) =>
      Array.isArray(value)
        ? readItems(value.map((part: unknown) => item.readYaml(part, directory)))
        : { trouble: `is ${shapeOf(value)}; write a list, for example ["one", "two"]` },
  };
}

function shapeOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return `the text ${quoted(value)}`;
  if (typeof value === 'number') return `the number ${value}`;
  return value === null ? 'empty' : typeof value === 'object' ? 'a group of keys' : String(value);
}
