/**
 * The one table of error codes. A code is part of the program's interface: it is stored, logged and shown, and never
 * changes its meaning. Exit code, scope and disposition of an error come from here alone. A command may also end with a
 * code without an error: with 77 where something is suspended or waits for an operator, with 75 where something waits for
 * time to pass, with 65 where verify finds a difference. `npm run docs` writes the table to docs/errors.md.
 */

/** The exit code of a command that an error ended; `cli/exit-codes.ts` names them. */
export type ErrorExitCode = 64 | 65 | 70 | 74 | 75 | 77 | 78;

/** The scopes of an error: the work that an error stops. */
export const SCOPES = {
  run: 'The whole run: nothing more is asked of the service until it is over.',
  part: 'The dataset or the subscription in which it occurred. All others go on.',
  operation:
    'The operation that was asked for (a command, the published copy, the export, the command after commits). The mirror goes on.',
  refusal: 'The API key, a subscription, a dataset or all retirements: the suspension says which.',
} as const;

export type ErrorScope = keyof typeof SCOPES;

/** The next action of the program after an error. */
export const DISPOSITIONS = {
  retry:
    'It passes by itself. The daemon tries again, waiting longer each time; `once` ends, and can be run again.',
  reload:
    'The position is lost: feed-sync starts again from the manifest, or from the snapshot of the dataset.',
  suspend: 'Nothing more is asked of the service for its scope until an operator resumes it.',
  stop: 'It fails in the same way until content, configuration or machine change. The daemon tries again now and then.',
} as const;

export type Disposition = keyof typeof DISPOSITIONS;

export interface ErrorEntry {
  readonly meaning: string;
  readonly exitCode: ErrorExitCode;
  readonly scope: ErrorScope;
  readonly disposition: Disposition;
  /** The remedy for an operator. */
  readonly remedy: string;
}

export const ERRORS = {
  usage_invalid: {
    meaning: 'The command line makes no sense, or the SQL that was given to it does not run.',
    exitCode: 64,
    scope: 'operation',
    disposition: 'stop',
    remedy: 'Correct the command line; `--help` lists what a command takes.',
  },
  input_refused: {
    meaning: 'The service does not know or does not accept an id or an address of the command line.',
    exitCode: 64,
    scope: 'operation',
    disposition: 'stop',
    remedy: 'Correct the id or the address, and run the command again. Nothing is suspended.',
  },
  data_invalid: {
    meaning:
      'A file or a page of changes cannot be mirrored as it is: it is damaged, or a value, a count or a key is wrong.',
    exitCode: 65,
    scope: 'part',
    disposition: 'stop',
    remedy:
      'Report the message to the service. The last good version stays; other content is loaded by itself.',
  },
  content_mismatch: {
    meaning: 'The length or the digest of a file differs from what its manifest states.',
    exitCode: 65,
    scope: 'part',
    disposition: 'stop',
    remedy:
      'Report it to the service if it lasts. It is tried again after 15 minutes, then after twice as long each time.',
  },
  changes_invalid: {
    meaning:
      'The changes of one version hold a value that does not fit its column, or a key that is null or repeated.',
    exitCode: 65,
    scope: 'part',
    disposition: 'stop',
    remedy: 'Report it to the service. To load the snapshot instead, run `feed-sync resync DATASET`.',
  },
  columns_unknown: {
    meaning: 'A file or a row of changes has columns that the schema of its dataset does not list.',
    exitCode: 65,
    scope: 'part',
    disposition: 'stop',
    remedy: 'Report it to the service. feed-sync has already read the schemas a second time.',
  },
  contract_violation: {
    meaning: 'A response of the service does not fit its documented interface. No part of it was used.',
    exitCode: 65,
    scope: 'part',
    disposition: 'retry',
    remedy: 'Report it to the service. Check that service.baseUrl leads to the service and not to a proxy.',
  },
  response_too_large: {
    meaning: 'The body of a response is larger than http.maxJsonBytes.',
    exitCode: 65,
    scope: 'part',
    disposition: 'retry',
    remedy: 'Raise http.maxJsonBytes if the service is meant to send so much at once.',
  },
  changes_inapplicable: {
    meaning:
      'Recorded changes cannot lead the table on: their counts differ, or they lack what the table needs.',
    exitCode: 65,
    scope: 'part',
    disposition: 'reload',
    remedy: 'Nothing: the snapshot is loaded instead.',
  },
  bug: {
    meaning: 'feed-sync itself is wrong. Nothing was committed in part.',
    exitCode: 70,
    scope: 'part',
    disposition: 'stop',
    remedy: 'Report the message and the stack of the log, and run it again.',
  },
  storage_failed: {
    meaning:
      'The disk, the mirror, the checkpoint or the staging folder cannot be read or written, or memory is too small.',
    exitCode: 74,
    scope: 'run',
    disposition: 'stop',
    remedy:
      'Do what the message says: free space, correct permissions, raise duckdb.memoryLimit, or check the disk.',
  },
  mirror_damaged: {
    meaning: 'A part of the mirror cannot be read: a disk, or another program, has damaged it.',
    exitCode: 74,
    scope: 'run',
    disposition: 'reload',
    remedy:
      'Check the disk. The next step finds the damaged tables and loads them again; what it cannot load again it names.',
  },
  dataset_storage_failed: {
    meaning:
      'Storage stands in the way of one dataset, for example an object of that name, or a damaged table of the database.',
    exitCode: 74,
    scope: 'part',
    disposition: 'stop',
    remedy: 'Do what the message says. The next catch-up tries the dataset again.',
  },
  disk_full: {
    meaning: 'The files of one dataset do not fit on the disk beside what is kept free (disk.reserve).',
    exitCode: 74,
    scope: 'part',
    disposition: 'stop',
    remedy: 'Free space, move dataDir to a larger disk, or leave the dataset out (datasets.exclude).',
  },
  copy_failed: {
    meaning:
      'The copy of the mirror cannot be published. The mirror is sound, and the previous copy stays in place.',
    exitCode: 74,
    scope: 'operation',
    disposition: 'stop',
    remedy: 'Check the folder and the disk of destination.publish.',
  },
  export_failed: {
    meaning:
      'The export cannot be written. The mirror is sound, and readers of the export have its last generation, whole.',
    exitCode: 74,
    scope: 'operation',
    disposition: 'stop',
    remedy: 'Check the folder and the disk of export.path. It is tried again by itself.',
  },
  service_unavailable: {
    meaning: 'The service cannot be reached, or gives no usable response within the configured retries.',
    exitCode: 75,
    scope: 'part',
    disposition: 'retry',
    remedy:
      'Wait. If it lasts, run `feed-sync doctor`, which checks name, connection, TLS and proxy one by one.',
  },
  cursor_expired: {
    meaning: 'The position in the log of a subscription is older than what the service keeps.',
    exitCode: 75,
    scope: 'part',
    disposition: 'reload',
    remedy:
      'Nothing: feed-sync reads the manifest and goes on from there. Run it more often than the service forgets.',
  },
  mirror_busy: {
    meaning: 'Another process holds the mirror for longer than feed-sync waits (`once`: lock.wait).',
    exitCode: 75,
    scope: 'run',
    disposition: 'retry',
    remedy: 'End that process or let it read the published copy (destination.publish).',
  },
  table_locked: {
    meaning:
      'Readers in the database hold the table of one dataset locked for longer than lock.wait, or have each commit of it ended (40001).',
    exitCode: 75,
    scope: 'part',
    disposition: 'retry',
    remedy:
      'End the transaction: pg_locks and pg_stat_activity name it. The next catch-up goes on by itself.',
  },
  node_unavailable: {
    meaning:
      'A node of the database, to which Citus gave the schema of a dataset, cannot be reached. To make or alter a table takes every node.',
    exitCode: 75,
    scope: 'part',
    disposition: 'retry',
    remedy:
      'Start the node: citus_check_cluster_node_health() names it. The next catch-up goes on by itself; other nodes get changes meanwhile.',
  },
  mirror_missing: {
    meaning: 'There is no mirror yet: no catch-up has made it, or destination.path names another place.',
    exitCode: 75,
    scope: 'operation',
    disposition: 'stop',
    remedy:
      'Run `feed-sync once`, or wait for the first commit of `feed-sync run`. Then run the command again.',
  },
  destination_unavailable: {
    meaning: 'The database server of destination.url cannot be reached, or it ended the connection.',
    exitCode: 75,
    scope: 'run',
    disposition: 'retry',
    remedy: 'Wait, or start the server. If it lasts, run `feed-sync doctor`.',
  },
  checkpoint_busy: {
    meaning: 'Another process writes the checkpoint or the lock file for longer than feed-sync waits.',
    exitCode: 75,
    scope: 'run',
    disposition: 'retry',
    remedy: 'Try again in a moment.',
  },
  table_changed: {
    meaning: 'A table was changed after the reading on which a request was decided.',
    exitCode: 75,
    scope: 'operation',
    disposition: 'stop',
    remedy: 'Read the table again, and decide anew.',
  },
  instance_running: {
    meaning: 'Another feed-sync works on the same data directory, or on the same database.',
    exitCode: 75,
    scope: 'run',
    disposition: 'retry',
    remedy: 'Wait until it ends, stop it, or set another dataDir. `status` and `query` work beside it.',
  },
  hook_failed: {
    meaning: 'The command of hooks.afterCommit failed. It is notified of the same commits again.',
    exitCode: 75,
    scope: 'operation',
    disposition: 'retry',
    remedy: 'Correct the command; the end of its output is in the log.',
  },
  notification_failed: {
    meaning: 'A notification could not be delivered to the address in notify.url. It stays due.',
    exitCode: 75,
    scope: 'operation',
    disposition: 'retry',
    remedy: 'Check the address and the way to it with `feed-sync notify test`.',
  },
  interrupted: {
    meaning: 'An operator or the system asked the process to stop before it was done.',
    exitCode: 75,
    scope: 'run',
    disposition: 'retry',
    remedy: 'Run it again: it goes on from the last commit.',
  },
  refused: {
    meaning: 'The service refused a request, and says why.',
    exitCode: 77,
    scope: 'refusal',
    disposition: 'suspend',
    remedy:
      'Act on the message and the links of the service, then run the `feed-sync resume` that `status` prints.',
  },
  destination_refused: {
    meaning: 'The role of destination.url lacks a right in the database.',
    exitCode: 77,
    scope: 'part',
    disposition: 'retry',
    remedy: 'Give the role its schemas and tables back; the next catch-up goes on by itself.',
  },
  reader_dependency: {
    meaning:
      'An object that a reader made in the database, such as a view or a foreign key, stands in the way of one dataset.',
    exitCode: 77,
    scope: 'part',
    disposition: 'retry',
    remedy: 'Drop or change the object that the message names; the next catch-up goes on by itself.',
  },
  command_refused: {
    meaning:
      'The service refused what an operator asked for by a command, for another reason than its input.',
    exitCode: 77,
    scope: 'operation',
    disposition: 'stop',
    remedy: 'Act on the message of the service, and run the command again. Nothing is suspended.',
  },
  configuration_invalid: {
    meaning:
      'The configuration cannot be used, or a file belongs to another program or to a newer feed-sync.',
    exitCode: 78,
    scope: 'run',
    disposition: 'stop',
    remedy: 'Correct the setting that the message names; `feed-sync doctor` checks them all.',
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>;

export type ErrorCode = keyof typeof ERRORS;
