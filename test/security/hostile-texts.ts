/** Texts that would do harm where they are executed, taken for a path, or written to a terminal or a log as they are. */

/** Nothing of this name may ever be made. */
export const MARK = 'feed-sync-was-here';
/** No line of what is printed may begin so. */
export const FORGED = 'FORGED';

const SQL = [
  `'; DROP TABLE main.parcels; COPY (SELECT 1) TO '${MARK}'; --`,
  `"; ATTACH '${MARK}' AS x; DROP SCHEMA feed_sync CASCADE; --`,
  `]; INSTALL httpfs; LOAD httpfs; FROM read_csv('/etc/passwd'); /*`,
  "$$ E'\\' \\x27 %27 ''",
];
const SHELL = [
  `$(touch ${MARK})`,
  `\`touch ${MARK}\``,
  `;touch ${MARK};`,
  `|touch ${MARK}&`,
  '-rf',
  '--version',
];
const PATHS = [`../../${MARK}`, `..\\..\\${MARK}`, `/tmp/${MARK}`, '*?[a-z]', '~', 'C:\\CON'];
const TERMINAL = [
  '\u001b[2J\u001b]0;title\u0007\u001b[31m',
  '\u009b2J',
  '\r',
  '\b\b\b',
  `\n${FORGED} line`,
  `\u2028${FORGED}`,
  `\r\n{"level":"error","msg":"${FORGED}"}`,
  '\u202e\u2066\u200f',
];
const OTHERS = [
  '__proto__',
  '{{7*7}}',
  '%s%n',
  '$' + '{jndi:ldap://x}',
  '"} 1\nfeed_sync_forged{x="',
  '😀',
  'x'.repeat(300),
];

/** All of it in one. It has no NUL and no half of a character, so it may be an id. */
export const HOSTILE = [...SQL, ...SHELL, ...PATHS, ...TERMINAL, ...OTHERS].join(' ');
/** Texts that no database and no URL can contain. */
export const UNWRITABLE = `a\0b\ud800 '; --`;

/** Characters that a terminal acts upon, or that reorder its text; a line feed is none where single lines are checked. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are searched for.
export const ACTIVE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
