/**
 * How long a window is kept open for units that become ready while it is. To open the mirror DuckDB reads what it knows of every
 * table, and to close it writes that again: with 3,000 tables that takes seconds, with ten nothing.
 */

/** Work in a window may take so many times what opening it took. */
const WORK_FOR_OPENING = 4;
/** Whatever it took: so long nobody else can look at the mirror, and what is being done at the end of it comes on top. */
const MAX_KEPT_OPEN_MS = 10_000;

/** Pure. `openingMs`: what it took to open the window; `openForMs`: how long ago that was. */
export function isWorthKeepingOpen(openingMs: number, openForMs: number): boolean {
  return openForMs < Math.min(WORK_FOR_OPENING * openingMs, MAX_KEPT_OPEN_MS);
}
