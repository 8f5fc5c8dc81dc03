/**
 * What is wrong with a text as YAML, in sentences of ours: those of the parser repeat parts of the text, and a part
 * of the text may be the API key.
 */

import { type Document, type ErrorCode, isAlias, visit } from 'yaml';

export interface YamlFault {
  /** The part of a sentence that follows "The file". */
  readonly trouble: string;
  /** Where in the text, in characters from 0. */
  readonly offset: number;
}

const STAR = 'uses *, which stands for another place of the file; put text that starts with * in quotes';
const TAG = 'uses !, which names a type; put text that starts with ! in quotes';
const INDENTATION = 'is not indented as YAML wants it; put the keys of a group one below the other';
const ODD_START = 'has text that starts with a character that YAML keeps for itself; put it in quotes';

const TROUBLES: Partial<Readonly<Record<ErrorCode, string>>> = {
  ALIAS_PROPS: STAR,
  BAD_ALIAS: STAR,
  BAD_DQ_ESCAPE: 'has a \\ in double quotes that means nothing there; use single quotes',
  BAD_INDENT: INDENTATION,
  BAD_SCALAR_START: ODD_START,
  BLOCK_AS_IMPLICIT_KEY: INDENTATION,
  DUPLICATE_KEY: 'has the same key twice; keep one',
  MISSING_CHAR: 'lacks a colon, a quote or a bracket, or the space after a colon',
  MULTILINE_IMPLICIT_KEY: 'has a line without a colon; write key: value',
  MULTIPLE_DOCS: 'holds a second document after ---; keep one',
  TAB_AS_INDENT: 'is indented with a tab; use spaces',
  TAG_RESOLVE_FAILED: TAG,
};

/** The first thing that is wrong: what follows is often a consequence of it. Null: it is YAML as we read it. */
export function firstFault(document: Document.Parsed): YamlFault | null {
  const [first] = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0]);
  if (first !== undefined) {
    return { trouble: TROUBLES[first.code] ?? 'is not YAML', offset: first.pos[0] };
  }
  let aliasOffset: number | null = null;
  visit(document, (_key, node) => {
    if (!isAlias(node)) return undefined;
    aliasOffset = node.range?.[0] ?? 0;
    return visit.BREAK;
  });
  return aliasOffset === null ? null : { trouble: STAR, offset: aliasOffset };
}
