/**
 * The settings that only commands that talk to the service read, in the order of the example file: keys of a group
 * stand together, those that a run cannot do without come first.
 */

import { choice, count, duration, list, path, secret, size } from './kinds.ts';
import { listenAddress } from './listen-address.ts';
import { baseUrl, identifier, manifestPath, origin, parameterName, schedule } from './service-kinds.ts';
import { absent, required, type Setting, written } from './setting.ts';

export const serviceSettings = {
  'service.baseUrl': {
    kind: baseUrl,
    default: required('https://feed.example.com'),
    description: 'The address of the service: https, or http on a loopback address.',
  },
  'service.apiKeyFile': {
    kind: path('file'),
    default: required('/etc/feed-sync/api-key'),
    description: 'The file that holds the API key, unless apiKey gives the key itself.',
  },
  'service.apiKey': {
    kind: secret,
    default: absent('read from apiKeyFile, else from $CREDENTIALS_DIRECTORY/api-key', null, '"the key"'),
    description: 'The API key, where it has no file of its own.',
  },
  'service.contract.manifestPath': {
    kind: manifestPath,
    default: absent('discovered', null, '/v1/subscriptions/{subscriptionId}/manifest'),
    description: 'Where the service has its manifest, if it cannot be discovered.',
  },
  'service.contract.newerThanParameter': {
    kind: parameterName,
    default: absent('discovered', null, 'since'),
    description: 'The parameter that asks for versions newer than a given one, if it cannot be discovered.',
  },
  'service.contract.manifestLag': {
    kind: duration({ min: '0s', max: '1d' }),
    default: written('15m'),
    description: 'How long a manifest that names no lastEventId may be behind the log.',
  },
  subscriptions: {
    kind: list(identifier, 'not empty'),
    default: absent('all', null, '["sub_1", "Texas parcels"]'),
    description: 'The subscriptions to follow, by id or name.',
  },
  'poll.every': {
    kind: duration({ min: '1s', max: '7d' }),
    default: written('1m'),
    description:
      'How often run asks whether something was published; up to a tenth sooner or later, by chance.',
  },
  'poll.schedule': {
    kind: schedule,
    default: absent('poll.every', null, '"0 6 * * *"'),
    description: 'When run asks whether something was published, as a cron expression in local time (TZ).',
  },
  'audit.every': {
    kind: duration({ min: '1m', max: '30d' }),
    default: written('1h'),
    description:
      'How often run compares all that is wanted with the manifests, with the first poll after it.',
  },
  schemaChanges: {
    kind: choice(['reload', 'alter']),
    default: written('reload'),
    description:
      'When a dataset gets new columns: reload loads all of it again; alter adds them to its table and applies the changes.',
  },
  removedDatasets: {
    kind: choice(['archive', 'drop', 'keep']),
    default: written('archive'),
    description:
      'The table of a dataset that left all subscriptions: archive moves it to the schema archived; drop deletes; keep lets it be.',
  },
  'downloads.allowedOrigins': {
    kind: list(origin, 'may be empty'),
    default: absent('none but public https addresses', [], '["https://files.example.com"]'),
    description: 'Further origins that snapshots may come from, also private ones and plain http.',
  },
  'changes.maxStagedBytes': {
    kind: size({ min: '1MB', max: '1000TB' }),
    default: written('8GB'),
    description:
      'How much of the changes of one dataset is staged at once. A version that has more gives way to the snapshot.',
  },
  'http.timeout': {
    kind: duration({ min: '100ms', max: '10m' }),
    default: written('30s'),
    description: 'The longest silence of a connection to the service.',
  },
  'http.connections': {
    kind: count({
      min: '2',
      max: '64',
      whyMin: 'one is kept for polls while files are downloaded from the service',
    }),
    default: written('8'),
    description:
      'How many connections to one origin are open at most, from 2 to 64. Downloads leave one to polls.',
  },
  'http.maxJsonBytes': {
    kind: size({ min: '64KB', max: '400MB' }),
    default: written('64MB'),
    description: 'The largest JSON answer that is accepted.',
  },
  'http.maxRetryAfter': {
    kind: duration({ min: '0s', max: '24h' }),
    default: written('15m'),
    description: 'The longest wait that the service may ask for.',
  },
  'retry.maxAttempts': {
    kind: count({ min: '1', max: '20' }),
    default: written('6'),
    description: 'How often a call is made before it counts as failed.',
  },
  'retry.baseDelay': {
    kind: duration({ min: '1ms', max: '1h' }),
    default: written('500ms'),
    description: 'The wait after the first failed attempt; it doubles with each further one.',
  },
  'retry.maxDelay': {
    kind: duration({ min: '1ms', max: '1h' }),
    default: written('30s'),
    description: 'The longest wait between two attempts.',
  },
  'status.listen': {
    kind: listenAddress,
    default: written('127.0.0.1:9464'),
    description:
      'Where run tells how it is, and receives webhooks; off turns it off. Other machines see it only where this says so.',
  },
} as const satisfies Readonly<Record<string, Setting<unknown>>>;
