/**
 * The commands by which an operator decides: what each takes, and what its help says. A decision is written down; `run` acts on
 * it within a second, else the next catch-up does. What a command does is loaded when it is called.
 */

import type { Command } from 'commander';
import type { Configuration, LocalConfiguration } from '../configuration/configuration.ts';
import { UsageError } from '../model/errors.ts';
import type { Context } from './context.ts';
import type { ExitCode } from './exit-codes.ts';
import type { ResumeOptions } from './resume.ts';

export interface Configured {
  readonly configured: () => Configuration;
  /** Where the service is not asked. */
  readonly configuredLocally: () => LocalConfiguration;
}

type Finish = (code: ExitCode) => void;

export function defineDecisionCommands(
  program: Command,
  { configured, configuredLocally }: Configured,
  context: Context,
  finish: Finish,
): void {
  program
    .command('resync')
    .description('load the snapshots of datasets again')
    .argument('[dataset...]', 'ids of datasets')
    .option('--all', 'every dataset that a subscription holds')
    .action(async (datasetIds: readonly string[], { all = false }: { all?: boolean }) => {
      const { resync } = await import('./resync.ts');
      finish(await resync(configuredLocally(), context, { datasetIds, all }));
    });
  program
    .command('resume')
    .description('go on with what is held or failed, after a person has acted on it')
    .option('--dataset <id>', 'a dataset, held or failed (repeatable)', collect)
    .option('--subscription <id>', 'a subscription, refused or missing (repeatable)', collect)
    .option('--workspace', 'the API key')
    .option('--retire', 'agree to the retirement of every dataset that no subscription holds')
    .option('--all', 'everything that is held or failed; retirements wait for --retire all the same')
    .option('--service-moved', 'go on with the service at service.baseUrl, which was at another address')
    .action(async ({ serviceMoved = false, ...flags }: Partial<ResumeOptions> & ServiceMovedFlag) => {
      if (serviceMoved) {
        refuseOthers(flags);
        const { acceptMovedService } = await import('./service-moved.ts');
        finish(await acceptMovedService(configured(), context));
        return;
      }
      const { resume } = await import('./resume.ts');
      finish(await resume(configuredLocally(), context, { ...NOTHING_TO_RESUME, ...flags }));
    });
  program
    .command('forget')
    .description('give up subscriptions that are held as missing, and retire what only they hold')
    .option('--subscription <id>', 'a subscription (repeatable)', collect)
    .action(async ({ subscription = [] }: { subscription?: readonly string[] }) => {
      const { forget } = await import('./forget.ts');
      finish(await forget(configuredLocally(), context, { subscription }));
    });
}

interface ServiceMovedFlag {
  readonly serviceMoved?: boolean;
}

/** @throws UsageError */
function refuseOthers(flags: Partial<ResumeOptions>): void {
  if (Object.keys(flags).length === 0) return;
  throw new UsageError('--service-moved goes with no other option of resume: the service is asked for it.', {
    hint: 'feed-sync resume --service-moved, and then what else is to be resumed.',
  });
}

const NOTHING_TO_RESUME: ResumeOptions = {
  dataset: [],
  subscription: [],
  workspace: false,
  retire: false,
  all: false,
};

function collect(value: string, values: readonly string[] = []): readonly string[] {
  return [...values, value];
}
