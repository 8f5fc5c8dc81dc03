/** Assertions about the program itself. A failed assertion is a bug and ends the process with its own exit code. */

import { inspect } from 'node:util';

export class AssertionError extends Error {
  override readonly name = 'AssertionError';
}

/** Asserts a condition. @throws AssertionError when `condition` is false. `belief` says what should have been true. */
export function assert(condition: boolean, belief: string): asserts condition {
  if (!condition) throw new AssertionError(`This should always hold, but does not: ${belief}`);
}

/** Returns a value that can only be missing through a bug. @throws AssertionError when it is null or undefined. */
export function present<T>(value: T | null | undefined, belief: string): T {
  assert(value !== null && value !== undefined, belief);
  return value;
}

/** Marks the branch that the compiler has shown to be unreachable. @throws AssertionError always. */
export function unreachable(value: never): never {
  throw new AssertionError(`A case was forgotten: ${inspect(value)}`);
}
