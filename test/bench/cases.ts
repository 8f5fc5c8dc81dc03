/** Every case, in the order in which they run. */

import { bootstrapLarge } from './bootstrap-large.ts';
import { bootstrapSmall } from './bootstrap-small.ts';
import type { BenchCase } from './case.ts';

export const CASES: readonly BenchCase[] = [bootstrapSmall, bootstrapLarge];
