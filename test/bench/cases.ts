/** Every case, in the order in which they run. */

import { bootstrapLarge } from './bootstrap-large.ts';
import { bootstrapMany } from './bootstrap-many.ts';
import { bootstrapSmall } from './bootstrap-small.ts';
import type { BenchCase } from './case.ts';
import { catchUpLarge, catchUpScript } from './catch-up-large.ts';
import { catchUpMany } from './catch-up-many.ts';
import { download } from './download.ts';
import { idlePoll } from './idle-poll.ts';
import { memoryLimit } from './memory-limit.ts';
import { updateMany } from './update-many.ts';
import { updateSmall } from './update-small.ts';

export const CASES: readonly BenchCase[] = [
  bootstrapSmall,
  bootstrapMany,
  bootstrapLarge,
  catchUpLarge,
  catchUpScript,
  catchUpMany,
  updateSmall,
  updateMany,
  idlePoll,
  memoryLimit,
  download,
];
