/** `feed-sync init`: writes a commented configuration file to start from. It never overwrites a file. */

import { resolve } from 'node:path';
import { exampleConfiguration } from '../../configuration/help.ts';
import { createFile, systemCode, systemReason } from '../../lib/files.ts';
import { StorageError, UsageError } from '../../model/errors.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';

/** Writes a configuration file. @throws UsageError when the file exists, or has no name. @throws StorageError when it cannot be written. */
export async function init(file: string, { terminal, workingDirectory }: Context): Promise<ExitCode> {
  if (file === '') throw new UsageError('The name of the file is empty.', { hint: 'feed-sync init --help' });
  const path = resolve(workingDirectory, file);
  try {
    await createFile('cli.init', path, exampleConfiguration());
  } catch (error) {
    throw problemWith(path, error);
  }
  const next = [
    `Wrote ${path}.`,
    'Set service.baseUrl and service.apiKeyFile in it (or FEED_SYNC_BASE_URL and FEED_SYNC_API_KEY), then:',
    '  feed-sync subscriptions   # what the key can see',
    '  feed-sync once            # load it',
  ];
  await write(terminal.stdout, `${next.join('\n')}\n`);
  return EXIT_CODES.caughtUp;
}

function problemWith(path: string, error: unknown): Error {
  const code = systemCode(error);
  if (code === 'EEXIST') {
    return new UsageError(`${path} is there already, and init never overwrites a file.`, {
      hint: 'Name another file: feed-sync init other.yaml',
    });
  }
  return new StorageError(`Could not write ${path}: ${systemReason(error)}.`, {
    hint: 'Choose a folder that exists and that you may write to.',
    cause: error,
  });
}
