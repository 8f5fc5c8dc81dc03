/** `npm run bench`: the cases; `npm run bench -- growth`; `npm run bench:check`. */

import { Command } from 'commander';
import { casesCommand } from './cases-command.ts';
import { checkCommand } from './check/command.ts';
import { growthCommand } from './growth/command.ts';

await new Command('bench')
  .description('How fast feed-sync is, how its cost grows, and whether it has become slower.')
  .addCommand(casesCommand, { isDefault: true })
  .addCommand(growthCommand)
  .addCommand(checkCommand)
  .parseAsync();
