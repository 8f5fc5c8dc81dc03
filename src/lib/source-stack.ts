/** The stacks of errors in the words of the sources: what is built has other files and lines. */

import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';

const PLACE = /(file:\/\/[^\s()]+\.js):(\d+):(\d+)/g;
/** The built files lie in a folder beside `src`. */
const OUT_OF_DIST = /^\.\.\//;

/**
 * Returns the stack of an error, with files and lines of `src`. The maps are read here and not for every stack of the process: streams read
 * the stack of each error that ends them, and the maps of a command have megabytes.
 */
export function sourceStack(error: Error): string {
  const maps = new Map<string, SourceMap | null>();
  const mapOf = (script: string): SourceMap | null => {
    const known = maps.get(script);
    if (known !== undefined) return known;
    const map = readMap(script);
    maps.set(script, map);
    return map;
  };
  const stack = error.stack ?? String(error);
  return stack.replaceAll(PLACE, (place, script: string, line: string, column: string) => {
    const origin = mapOf(script)?.findOrigin(Number(line), Number(column));
    if (origin === undefined || !('fileName' in origin)) return place;
    return `${origin.fileName.replace(OUT_OF_DIST, '')}:${origin.lineNumber}:${origin.columnNumber}`;
  });
}

/** Null where a script has none, or none that can be read: its places then stay as they are. */
function readMap(script: string): SourceMap | null {
  try {
    return new SourceMap(JSON.parse(readFileSync(new URL(`${script}.map`), 'utf8')));
  } catch {
    return null;
  }
}
