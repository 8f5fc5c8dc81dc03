/** The code that the system or a library gave an error (`ENOENT`, `Z_DATA_ERROR`); null where it gave none. */
export function systemCode(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}
