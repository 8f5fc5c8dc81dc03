/** Every text in an answer, by its path, and answers in which one of them is another. */

type Path = readonly (string | number)[];

/** Of lists the first item stands for all. */
export function textPaths(body: unknown, path: Path = []): readonly Path[] {
  if (typeof body === 'string') return [path];
  if (Array.isArray(body)) return body.length === 0 ? [] : textPaths(body[0], [...path, 0]);
  if (typeof body !== 'object' || body === null) return [];
  return Object.entries(body).flatMap(([name, member]) => textPaths(member, [...path, name]));
}

/** A copy of the body in which `text` stands at the path, where that leads somewhere. */
export function withText(body: unknown, path: Path, text: string): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return text;
  if (Array.isArray(body)) return body.map((item, at) => (at === step ? withText(item, rest, text) : item));
  if (typeof body !== 'object' || body === null) return body;
  const members = Object.entries(body).map(([name, member]) => [
    name,
    name === step ? withText(member, rest, text) : member,
  ]);
  return Object.fromEntries(members);
}

/** A copy in which the names of all members are `text` too: every object has one more. */
export function withNames(body: unknown, text: string): unknown {
  if (Array.isArray(body)) return body.map((item) => withNames(item, text));
  if (typeof body !== 'object' || body === null) return body;
  const members = Object.entries(body).map(([name, member]) => [name, withNames(member, text)] as const);
  return Object.fromEntries([...members, [text, text]]);
}

/** `data.counts.added`, `datasets[].files[].url`. */
export function pathName(path: Path): string {
  return path
    .map((step) => (typeof step === 'number' ? '[]' : `.${step}`))
    .join('')
    .slice(1);
}
