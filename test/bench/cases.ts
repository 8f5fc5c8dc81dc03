/** Every case, in the order in which they run. */

import { bootstrapLarge, bootstrapUnordered } from './bootstrap-large.ts';
import { bootstrapMany } from './bootstrap-many.ts';
import { bootstrapSmall } from './bootstrap-small.ts';
import type { BenchCase } from './case.ts';
import { catchUpLarge } from './catch-up-large.ts';
import { catchUpMany } from './catch-up-many.ts';
import { compactCompress } from './compact.ts';
import { download, downloadFar } from './download.ts';
import { idlePoll } from './idle-poll.ts';
import { memoryLimit } from './memory-limit.ts';
import { PEER_CASES } from './peers.ts';
import { POSTGRES_CASES } from './postgres-cases.ts';
import { reloadFew, reloadGrowth } from './reload.ts';
import { statusLoad } from './status-load.ts';
import { updateMany } from './update-many.ts';
import { updateSmall, updateSmallHistory } from './update-small.ts';

export const CASES: readonly BenchCase[] = [
  bootstrapSmall,
  bootstrapMany,
  bootstrapLarge,
  bootstrapUnordered,
  catchUpLarge,
  catchUpMany,
  updateSmall,
  updateSmallHistory,
  reloadFew,
  reloadGrowth,
  compactCompress,
  updateMany,
  idlePoll,
  statusLoad,
  memoryLimit,
  download,
  downloadFar,
  ...PEER_CASES,
  ...POSTGRES_CASES,
];
