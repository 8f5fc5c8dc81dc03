/** What is wrong with a configuration. Problems are collected and reported together, so that one run shows them all. */

import { ConfigurationError } from '../model/errors.ts';

export interface Problem {
  /** The key, variable or file in trouble. */
  readonly subject: string;
  /** The rest of the sentence, without its full stop. Never holds a secret. */
  readonly fault: string;
  /** Where the value stands: `file /etc/feed-sync/feed-sync.yaml:4`; null where there is none. */
  readonly source: string | null;
}

/** @throws ConfigurationError always. It lists the problems, a line for each; there must be one. */
export function throwProblems(problems: readonly Problem[]): never {
  const lines = problems.map(({ subject, fault, source }) =>
    source === null ? `  ${subject} ${fault}` : `  ${subject} ${fault} (${source})`,
  );
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  throw new ConfigurationError([`The configuration has ${count}:`, ...lines].join('\n'), {
    hint: 'feed-sync settings explains every key; feed-sync init writes a commented file of them.',
  });
}

const MAX_QUOTED_CHARACTERS = 80;

/** A value for a message: in quotes, on one line, cut where it is very long. */
export function quoted(text: string): string {
  const cut = text.length > MAX_QUOTED_CHARACTERS ? `${text.slice(0, MAX_QUOTED_CHARACTERS)}…` : text;
  const line = cut.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, (control) => {
    return `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return `'${line}'`;
}
