/**
 * How long a window is kept open for units that become ready while it is. To open the mirror DuckDB reads what it knows of every
 * table, and to close it writes that again: with 3,000 tables that takes seconds, with ten nothing. Pure; times in milliseconds.
 */

/** Below it another window costs so little that the file is rather left to readers. */
const LITTLE_MS = 100;
/** Work in a window may take so many times what opening it took. */
const WORK_FOR_OPENING = 20;
/** The next unit is waited for so much of what opening took. */
const WAIT_FOR_OPENING = 1 / 5;
/** Whatever it took: so long nobody else can look at the mirror, and what was taken last comes on top. */
const MAX_KEPT_OPEN_MS = 10_000;

/** How long the next unit may be waited for; null where the window is to end. `openForMs`: how long ago it was opened. */
export function waitForNext(openingMs: number, openForMs: number): number | null {
  const restMs = Math.min(WORK_FOR_OPENING * openingMs, MAX_KEPT_OPEN_MS) - openForMs;
  return openingMs >= LITTLE_MS && restMs > 0 ? Math.min(WAIT_FOR_OPENING * openingMs, restMs) : null;
}
