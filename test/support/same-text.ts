/** Two values compared as JSON; the difference in words, or nothing. */
export function sameText(what: string, actual: unknown, expected: unknown): readonly string[] {
  const [is, ought] = [JSON.stringify(actual), JSON.stringify(expected)];
  return is === ought ? [] : [`${what}: ${is} is not ${ought}`];
}
