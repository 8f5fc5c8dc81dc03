import { printable } from '../lib/printable.ts';

/**
 * JSON for programs: indented, with one line break at the end. What a terminal would act upon is written as an escape, which
 * means the same.
 */
export function jsonText(value: unknown): string {
  const lines = JSON.stringify(value, null, 2).split('\n');
  return `${lines.map(printable).join('\n')}\n`;
}
