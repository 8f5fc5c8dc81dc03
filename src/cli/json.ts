/** JSON for programs: two spaces, one line break at the end; integers beyond 2^53 as numbers, exactly. */
export function jsonText(value: unknown): string {
  return `${JSON.stringify(value, (_key, part: unknown) => (typeof part === 'bigint' ? JSON.rawJSON(String(part)) : part), 2)}\n`;
}
