/** Every case, in the order in which they run. */

import { bootstrapLarge } from './bootstrap-large.ts';
import { bootstrapSmall } from './bootstrap-small.ts';
import type { BenchCase } from './case.ts';
import { catchUpLarge } from './catch-up-large.ts';
import { catchUpMany } from './catch-up-many.ts';

export const CASES: readonly BenchCase[] = [bootstrapSmall, bootstrapLarge, catchUpLarge, catchUpMany];
