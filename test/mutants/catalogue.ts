/** Every decision that is broken on purpose. */

import { CHANGES } from './catalogue/changes.ts';
import { CHECKPOINT } from './catalogue/checkpoint.ts';
import { COMMANDS } from './catalogue/commands.ts';
import { DAEMON } from './catalogue/daemon.ts';
import { DOING } from './catalogue/doing.ts';
import { DOWNLOADS } from './catalogue/downloads.ts';
import { FOLLOWING } from './catalogue/following.ts';
import { MIRROR } from './catalogue/mirror.ts';
import { PLANNING } from './catalogue/planning.ts';
import { POSTGRES } from './catalogue/postgres.ts';
import { SERVICE } from './catalogue/service.ts';
import { WEBHOOK } from './catalogue/webhook.ts';
import type { Area } from './mutant.ts';

export const AREAS: readonly Area[] = [
  FOLLOWING,
  PLANNING,
  DOING,
  CHECKPOINT,
  MIRROR,
  CHANGES,
  POSTGRES,
  SERVICE,
  DOWNLOADS,
  DAEMON,
  WEBHOOK,
  COMMANDS,
];
