/**
 * The settings that every command reads, also those that only look at what is on this machine, in the order of the
 * example file: keys of a group stand together.
 */

import { join } from 'node:path';
import { command } from './command.ts';
import { choice, count, duration, list, path, size } from './kinds.ts';
import { datasetGlob } from './service-kinds.ts';
import {
  absent,
  type Derive,
  type DerivedDefault,
  derived,
  type Machine,
  type Setting,
  type Surroundings,
  written,
} from './setting.ts';

/** A slip of the unit, 4MB for 4GB, shows here and not in the middle of a load. */
const LEAST_MEMORY_LIMIT_BYTES = 64e6;
const MOST_THREADS = 1_024;

export const localSettings = {
  'datasets.include': {
    kind: list(datasetGlob, 'not empty'),
    default: absent('all', ['*'], '["us-tx-*"]'),
    description: 'The datasets to mirror, by id; * stands for any text.',
  },
  'datasets.exclude': {
    kind: list(datasetGlob, 'may be empty'),
    default: absent('none', [], '["*-permits"]'),
    description: 'The datasets to leave out of those included, by id; * stands for any text.',
  },
  dataDir: {
    kind: path('folder'),
    default: derived('$STATE_DIRECTORY, else ./data', dataDirectoryDefault),
    description: 'The folder for everything that is kept: mirror, checkpoint, downloads.',
  },
  'destination.path': {
    kind: path('file'),
    default: derived('mirror.duckdb in dataDir', inDataDirectory('mirror.duckdb')),
    description: 'The DuckDB file that is the mirror.',
  },
  'destination.publish': {
    kind: path('file'),
    default: absent('no copy', null, '/srv/feeds/parcels.duckdb'),
    description:
      'Where a copy of the mirror is renamed into place after commits, for readers that stay open.',
  },
  'destination.publishEvery': {
    kind: duration({ min: '1s', max: '30d' }),
    default: written('1m'),
    description: 'How often run publishes a copy at most.',
  },
  'hooks.afterCommit': {
    kind: command,
    default: absent('none', null, '["./refresh.sh", "--all"]'),
    description:
      'The command that is run after commits, with what changed as JSON on its standard input; without a shell.',
  },
  'hooks.timeout': {
    kind: duration({ min: '1s', max: '24h' }),
    default: written('5m'),
    description: 'How long that command may take before it and all that it started is ended.',
  },
  'checkpoint.path': {
    kind: path('file'),
    default: derived('checkpoint.sqlite in dataDir', inDataDirectory('checkpoint.sqlite')),
    description: 'The SQLite file that remembers how far each subscription has been read.',
  },
  'lock.wait': {
    kind: duration({ min: '0s', max: '24h' }),
    default: written('60s'),
    description: 'How long a write waits while a reader holds the mirror.',
  },
  'disk.reserve': {
    kind: size({ min: '0MB', max: '1000TB' }),
    default: written('1GB'),
    description: 'The space that is kept free on the disk.',
  },
  'duckdb.memoryLimit': {
    kind: size({ min: inMegabytes(LEAST_MEMORY_LIMIT_BYTES), max: '1000TB' }),
    default: derived('half of what the container or machine has', ({ machine }) => halfOfMemory(machine)),
    description: 'The memory that DuckDB may use before it writes to disk.',
  },
  'duckdb.threads': {
    kind: count({ min: '1', max: String(MOST_THREADS) }),
    default: derived('all cores', ({ machine }) => ({ text: String(Math.min(machine.cores, MOST_THREADS)) })),
    description: 'How many threads DuckDB may use.',
  },
  'webhook.secretFile': {
    kind: path('file'),
    default: absent('off', null, './webhook-secrets'),
    description:
      'The file of the secrets that sign what the service pushes to us, a line for each, the newest first.',
  },
  'log.level': {
    kind: choice(['trace', 'debug', 'info', 'warn', 'error', 'silent']),
    default: written('info'),
    description: 'The least important messages that are written.',
  },
  'log.format': {
    kind: choice(['text', 'json']),
    default: derived('text on a terminal, json elsewhere', ({ stderrIsTerminal }) => ({
      text: stderrIsTerminal ? 'text' : 'json',
    })),
    description: 'How messages are written to standard error.',
  },
} as const satisfies Readonly<Record<string, Setting<unknown>>>;

/** The service manager's folder for us; of several, the first. */
function dataDirectoryDefault({ environment }: Surroundings): DerivedDefault {
  const { STATE_DIRECTORY: directories = '' } = environment;
  const [directory = ''] = directories.split(':');
  return directory === '' ? { text: './data' } : { text: directory, source: 'environment STATE_DIRECTORY' };
}

function inDataDirectory(name: string): Derive {
  return (_surroundings, dataDirectory) => ({ text: join(dataDirectory, name) });
}

function halfOfMemory({ memoryBytes, constrainedMemoryBytes }: Machine): DerivedDefault {
  const usableBytes =
    constrainedMemoryBytes > 0 ? Math.min(constrainedMemoryBytes, memoryBytes) : memoryBytes;
  return { text: inMegabytes(Math.max(usableBytes / 2, LEAST_MEMORY_LIMIT_BYTES)) };
}

function inMegabytes(bytes: number): string {
  return `${Math.floor(bytes / 1e6)}MB`;
}
