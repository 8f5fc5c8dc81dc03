/**
 * Patterns of dataset ids, with the text that each wildcard matched. `*` stands for any text, also for none; a backslash makes the
 * next character literal.
 *
 * Invariant: a pattern matches the ids that the package `matcher` says, which reads the patterns of all other settings.
 */

/** Returns the number of wildcards in a pattern. */
export function wildcardCount(glob: string): number {
  return literalsOf(glob).length - 1;
}

/**
 * Returns the texts that the wildcards matched, in order; null where the pattern does not match. Each wildcard, from left to right,
 * matches as little as possible.
 */
export function wildcardTexts(glob: string, datasetId: string): readonly string[] | null {
  const [first = '', ...others] = literalsOf(glob);
  const last = others.pop();
  if (last === undefined) return datasetId === first ? [] : null;
  const end = datasetId.length - last.length;
  if (end < first.length || !datasetId.startsWith(first) || !datasetId.endsWith(last)) return null;
  const texts: string[] = [];
  let position = first.length;
  for (const literal of others) {
    const found = datasetId.indexOf(literal, position);
    if (found === -1 || found + literal.length > end) return null;
    texts.push(datasetId.slice(position, found));
    position = found + literal.length;
  }
  return [...texts, datasetId.slice(position, end)];
}

/** Returns the texts before, between and after the wildcards. */
function literalsOf(glob: string): readonly string[] {
  // Rules are asked about each of thousands of datasets, and hardly any has a backslash.
  if (!glob.includes('\\')) return glob.split('*');
  const literals: string[] = [];
  let literal = '';
  for (const [token, escaped] of glob.matchAll(/\\(.)|./gs)) {
    if (token === '*') {
      literals.push(literal);
      literal = '';
    } else literal += escaped ?? token;
  }
  return [...literals, literal];
}
