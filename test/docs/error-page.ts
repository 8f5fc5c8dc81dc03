/** The page docs/errors.md, made from the table of error codes. */

import { BY_URGENCY } from '../../src/cli/exit-codes.ts';
import { DISPOSITIONS, ERRORS, type ErrorEntry, SCOPES } from '../../src/model/error-codes.ts';

export const ERROR_PAGE = 'docs/errors.md';

export function errorPage(): string {
  const entries: readonly (readonly [string, ErrorEntry])[] = Object.entries(ERRORS);
  const rows = entries.map(([code, { meaning, exitCode, scope, disposition, remedy }]) =>
    rowOf(`\`${code}\``, meaning, String(exitCode), scope, disposition, remedy),
  );
  return `# Errors

<!-- Made by \`npm run docs\` from src/model/error-codes.ts. Change it there. -->

## What does a code mean, and what can I do?

Find the code in the table. Every error has exactly one code. It stands in brackets behind a message,
and in the field \`error\` of the log and of the JSON outputs. A code keeps its meaning in later
versions; codes may be added. Decide by the code: messages are for people and may be worded anew.

${rowOf('code', 'meaning', 'exit code', 'scope', 'retry', 'what to do')}
|---|---|---|---|---|---|
${rows.join('\n')}

## What does the scope say?

How much an error stops.

${wordsOf('scope', SCOPES)}

## What does the program do next?

The column "retry" says it.

${wordsOf('retry', DISPOSITIONS)}

## Which exit code does a command end with?

With that of its error. Where several errors occurred, it ends with the first of these that applies:
${BY_URGENCY.join(', ')}. It ends with 0 where everything is caught up.
`;
}

function wordsOf(title: string, words: Readonly<Record<string, string>>): string {
  return [
    rowOf(title, 'meaning'),
    '|---|---|',
    ...Object.entries(words).map(([word, meaning]) => rowOf(word, meaning)),
  ].join('\n');
}

function rowOf(...cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}
