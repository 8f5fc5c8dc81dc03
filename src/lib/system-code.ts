import { getSystemErrorMessage } from 'node:util';

/** Where the system's own words are of no help to whoever gave a path. */
const PLAIN_WORDS: Readonly<Record<string, string>> = {
  EISDIR: 'it is a folder',
  ENOTDIR: 'its path leads through a file',
};

/** The code that the system or a library gave an error (`ENOENT`, `Z_DATA_ERROR`); null where it gave none. */
export function systemCode(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}

/** `no such file or directory (ENOENT)`: why the system refused, without the path. */
export function systemReason(error: unknown): string {
  if (!(error instanceof Error) || !('code' in error)) return String(error);
  const { code } = error;
  const plain = PLAIN_WORDS[String(code)];
  if (plain !== undefined) return `${plain} (${code})`;
  const hasNumber = 'errno' in error && typeof error.errno === 'number';
  return hasNumber ? `${getSystemErrorMessage(Number(error.errno))} (${code})` : String(code);
}
