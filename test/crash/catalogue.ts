/**
 * Every durable effect of the program: a description, and the scenarios in which a process is killed just before and after
 * it. With a star the name occurs there more than once, and the last occurrence is killed, too; without one there is only
 * the first. A test compares this with the sources, with what is recorded, and with the table of the README of this folder.
 */

import type { CommitKind } from '../../src/model/commits.ts';

export interface CatalogueEntry {
  readonly effect: string;
  /** Names of scenarios, with a comma and a blank between them. */
  readonly killedIn: string;
}

export const CATALOGUE: Readonly<Record<string, CatalogueEntry>> = {
  'checkpoint.adopt': {
    effect: 'stores in the checkpoint the progress that only the mirror has',
    killedIn: 'checkpoint quarantined',
  },
  'checkpoint.approve-retirements': {
    effect: "stores an operator's approval of retirements",
    killedIn: 'approve retirements',
  },
  'checkpoint.ask': {
    effect: 'stores a request of an operator, or that its command still waits',
    killedIn: 'roll back, unpin, repair, approve',
  },
  'checkpoint.begin-request': {
    effect: 'notes that a request of an operator has begun',
    killedIn: 'requested, roll back, unpin, approve',
  },
  'checkpoint.clear-failure': {
    effect: 'clears the failure of a dataset',
    killedIn: 'cut downloads*, mend*',
  },
  'checkpoint.clear-forgotten': {
    effect: 'clears subscriptions whose `forget` is complete',
    killedIn: 'forgotten',
  },
  'checkpoint.create': {
    effect: 'creates the empty file of the checkpoint',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish, checkpoint quarantined*',
  },
  'checkpoint.create-lock': {
    effect: 'creates the empty file of the instance lock',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'checkpoint.fail': {
    effect: 'stores the failure of a dataset',
    killedIn: 'fail*',
  },
  'checkpoint.follow-step': {
    effect: 'stores the desired states and the position of a subscription',
    killedIn: 'load*, apply, alter, resync, 410*, retire (archive), publish',
  },
  'checkpoint.forget': {
    effect: 'stores that an operator forgets a subscription',
    killedIn: 'forget',
  },
  'checkpoint.forget-webhook': {
    effect: 'removes the id of a webhook',
    killedIn: 'webhook remove',
  },
  'checkpoint.hook-failed': {
    effect: 'stores the failure of the command after commits',
    killedIn: 'hook fails',
  },
  'checkpoint.hook-reported': {
    effect: 'stores the last commit that was reported to the command after commits',
    killedIn: 'publish, publish first, publish again*',
  },
  'checkpoint.keep-candidate': {
    effect: 'stores a candidate that awaits approval',
    killedIn: 'wait*, evict, approve',
  },
  'checkpoint.keep-notifications': {
    effect: 'stores the notifications that an operator received',
    killedIn: 'notify',
  },
  'checkpoint.keep-scrub': {
    effect: 'stores the progress of a scrub, or that the mirror needs an examination',
    killedIn: 'scrub',
  },
  'checkpoint.keep-webhook': {
    effect: 'stores the id of a new webhook',
    killedIn: 'webhook add',
  },
  'checkpoint.lift': {
    effect: 'removes a suspension that an operator lifts',
    killedIn: 'resume*',
  },
  'checkpoint.make-directory': {
    effect: 'creates the folder of the checkpoint',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'checkpoint.make-lock-directory': {
    effect: 'creates the folder of the instance lock',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'checkpoint.mark-refreshed': {
    effect: 'notes that a metadata refresh is done',
    killedIn: 'alter*, reload*, 410*',
  },
  'checkpoint.mark-satisfied': {
    effect: 'notes that reloads are satisfied',
    killedIn: 'reload, resync*, 410*',
  },
  'checkpoint.migrate': {
    effect: 'creates or migrates the tables of the checkpoint',
    killedIn: 'load, migrate',
  },
  'checkpoint.note-absences': {
    effect: 'stores or clears absences after a complete reading',
    killedIn: 'withdrawn*',
  },
  'checkpoint.note-audited': {
    effect: 'stores the time of the audit of a subscription',
    killedIn: 'load*, apply, alter, resync, 410*, retire (archive)*, publish',
  },
  'checkpoint.note-listed': {
    effect: 'stores the first list of versions after the request of a reload',
    killedIn: 'reload, resync*, 410*',
  },
  'checkpoint.note-poll': {
    effect: 'stores the time of the last poll, or its error',
    killedIn: 'load*, apply*, alter*, resync*, 410*, retire (archive)*, publish*',
  },
  'checkpoint.note-retired': {
    effect: 'clears the demands on a retired table',
    killedIn: 'retire (archive)*, retire (drop)*, retire (keep)*',
  },
  'checkpoint.note-stated': {
    effect: 'stores that the service states the last event of a subscription',
    killedIn: 'load*',
  },
  'checkpoint.owe-again': {
    effect: 'stores the reloads that a rollback may leave unsatisfied',
    killedIn: 'roll back',
  },
  'checkpoint.quarantine': {
    effect: 'renames a damaged checkpoint',
    killedIn: 'checkpoint quarantined',
  },
  'checkpoint.quarantine-log': {
    effect: 'renames the log of a damaged checkpoint',
    killedIn: 'checkpoint quarantined',
  },
  'checkpoint.quarantine-log-index': {
    effect: 'renames the index of the log of a damaged checkpoint',
    killedIn: 'checkpoint quarantined',
  },
  'checkpoint.release-lock': {
    effect: 'releases the instance lock',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'checkpoint.remember-contract': {
    effect: 'stores the discovered parts of the interface',
    killedIn: 'load, apply, alter, resync, 410, retire (archive)*, publish',
  },
  'checkpoint.remember-delivery': {
    effect: 'stores the id of a delivery of a webhook',
    killedIn: 'deliveries*',
  },
  'checkpoint.remove-candidate': {
    effect: 'removes a candidate that is over',
    killedIn: 'correct*, approve',
  },
  'checkpoint.request-resync': {
    effect: "stores an operator's request of resyncs",
    killedIn: 'request resync',
  },
  'checkpoint.settle-request': {
    effect: 'stores the answer to a request of an operator, or its withdrawal',
    killedIn: 'requested, roll back, unpin, approve',
  },
  'checkpoint.suspend': {
    effect: 'stores a suspension',
    killedIn: 'refuse*',
  },
  'checkpoint.sync-run': {
    effect: 'stores a sync run',
    killedIn:
      'load*, apply*, alter*, resync*, 410*, retire (archive)*, retire (drop)*, retire (keep)*, publish*',
  },
  'checkpoint.void-announced': {
    effect: 'voids announced versions that count as withdrawn',
    killedIn: 'withdrawn*',
  },
  'checkpoint.write-lock-holder': {
    effect: 'writes the holder of the instance lock',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'cli.add-secret': {
    effect: 'puts the secret of a webhook before the others in its file',
    killedIn: 'webhook add',
  },
  'cli.clear-query-folder': {
    effect: 'removes the folders of the rows of this and of killed queries',
    killedIn: 'query to a file',
  },
  'cli.end-try-of-secret-file': {
    effect: 'removes the file of that try, if there was none before',
    killedIn: 'webhook add',
  },
  'cli.init': {
    effect: 'writes a configuration file',
    killedIn: 'init',
  },
  'cli.make-query-folder': {
    effect: 'creates the folder for the rows of a query',
    killedIn: 'query to a file',
  },
  'cli.make-verify-folder': {
    effect: 'creates the folder of `verify --deep`',
    killedIn: 'repair',
  },
  'cli.open-query-result': {
    effect: 'creates the empty file of the rows',
    killedIn: 'query to a file',
  },
  'cli.place-query-result': {
    effect: 'gives the file of the rows its name',
    killedIn: 'query to a file',
  },
  'cli.remember-verified': {
    effect: 'remembers a table that is equal, until all tables are compared',
    killedIn: 'repair',
  },
  'cli.remove-secret': {
    effect: 'removes the secret of a webhook from its file',
    killedIn: 'webhook remove',
  },
  'cli.remove-verify-folder': {
    effect: 'removes the folder of `verify --deep`',
    killedIn: 'repair',
  },
  'cli.settle-query-result': {
    effect: 'syncs the file of the rows before it gets its name',
    killedIn: 'query to a file',
  },
  'cli.try-secret-file': {
    effect: 'rewrites the file of secrets unchanged, to check that it is writable',
    killedIn: 'webhook add',
  },
  'daemon.remove-stale-socket': {
    effect: 'removes the socket of a killed status server',
    killedIn: 'stale socket',
  },
  'destination.attach': {
    effect: 'opens the mirror for writing, and creates a missing one',
    killedIn: 'load*, apply*, alter*, resync*, 410*, retire (archive)*, publish*',
  },
  'destination.checkpoint': {
    effect: 'checkpoints the log of the mirror into its file',
    killedIn: 'load*, apply*, alter*, resync*, 410*, retire (archive)*, publish*',
  },
  'destination.commit': {
    effect: 'commits rows, version and history in the mirror',
    killedIn:
      'load*, apply*, alter*, reload*, resync*, 410*, retire (archive)*, retire (drop)*, retire (keep)*, publish*, mirror quarantined*, requested resync*, forgotten, roll back*, repair*, approve*, log*, close*, freeze*, keep the past*, return*',
  },
  'destination.compact': {
    effect: 'gives the compacted mirror the name of the old one',
    killedIn: 'compact',
  },
  'destination.compact-attach': {
    effect: 'checkpoints the rest of the log into the mirror before it is copied',
    killedIn: 'compact',
  },
  'destination.compact-clear': {
    effect: 'removes the remains of an earlier compact',
    killedIn: 'compact*',
  },
  'destination.compact-commit': {
    effect: 'commits the copied tables',
    killedIn: 'compact',
  },
  'destination.compact-create': {
    effect: 'creates the new file of compact',
    killedIn: 'compact',
  },
  'destination.compact-give': {
    effect: 'gives the new file to the owner of the old one',
    killedIn: 'compact',
  },
  'destination.compact-no-log': {
    effect: 'checkpoints the log of the mirror before rows are copied',
    killedIn: 'compact',
  },
  'destination.compact-settle': {
    effect: 'sets the mode of the new file and syncs it',
    killedIn: 'compact',
  },
  'destination.compact-write': {
    effect: 'checkpoints the log of the new file into it',
    killedIn: 'compact',
  },
  'destination.cut-log': {
    effect: 'cuts the unreadable end off the log of the mirror, after a copy of the whole log',
    killedIn: 'torn log',
  },
  'destination.forget-past': {
    effect: 'removes in the mirror a part of the past that is older than its limit',
    killedIn: 'forget the past*',
  },
  'destination.lift-pin': {
    effect: 'commits in the mirror the end of the pin of a rollback',
    killedIn: 'unpin',
  },
  'destination.make-directory': {
    effect: 'creates the folder of the mirror',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'destination.make-publish-directory': {
    effect: 'creates the folder of the published copy',
    killedIn: 'publish, publish first',
  },
  'destination.publish': {
    effect: 'gives the copy its name',
    killedIn: 'publish, publish first, publish again*',
  },
  'destination.publish-clear': {
    effect: 'removes the remains of an earlier copy',
    killedIn: 'publish, publish first, publish again*',
  },
  'destination.publish-clear-log': {
    effect: 'removes a foreign log beside the copy',
    killedIn: 'publish, publish again*',
  },
  'destination.publish-clone': {
    effect: 'clones the mirror as the copy, where the file system can',
    killedIn: 'publish, publish again*',
  },
  'destination.publish-copy': {
    effect: 'writes the bytes of the copy',
    killedIn: 'publish, publish again*',
  },
  'destination.publish-discard': {
    effect: 'removes a copy that is not published',
    killedIn: 'publish in vain',
  },
  'destination.publish-open': {
    effect: 'creates the empty file of the copy',
    killedIn: 'publish, publish again*',
  },
  'destination.publish-settle': {
    effect: 'sets the mode of the copy and syncs it',
    killedIn: 'publish, publish first, publish again*',
  },
  'destination.quarantine': {
    effect: 'renames a mirror that cannot be read',
    killedIn: 'mirror quarantined',
  },
  'destination.quarantine-log': {
    effect: 'renames the log of a mirror that cannot be read',
    killedIn: 'mirror quarantined',
  },
  'destination.remove-empty': {
    effect: 'removes an empty mirror that cannot be opened',
    killedIn: 'empty mirror',
  },
  'destination.remove-old-log': {
    effect: 'removes the oldest of the logs that were kept so',
    killedIn: 'torn log',
  },
  'destination.store-checksums': {
    effect: 'commits in the mirror the checksum of a table that was verified, or whose hash changed',
    killedIn: 'checksums*',
  },
  'destination.store-progress': {
    effect: 'commits in the mirror its positions, and the last commit that was reported',
    killedIn: 'load, apply, alter, resync, 410, retire (archive)*, publish*',
  },
  'destination.sync-entries': {
    effect: 'syncs the names of the mirror and its log after COMMIT',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'feed.drop-finished-origin': {
    effect: 'removes the note of a finished part',
    killedIn: 'load*, resync*, 410*, cut downloads*, no digests*',
  },
  'feed.drop-part': {
    effect: 'removes a bad part',
    killedIn: 'bad downloads*',
  },
  'feed.drop-part-origin': {
    effect: 'removes the note of a bad part',
    killedIn: 'bad downloads*',
  },
  'feed.finish-file': {
    effect: 'gives a verified download its name',
    killedIn: 'load*, resync*, 410*, cut downloads*, no digests*',
  },
  'feed.forget-finished-file': {
    effect: 'removes the note of a finished file before another file replaces it',
    killedIn: 'no digests*',
  },
  'feed.forget-part-origin': {
    effect: 'removes the note about a part before its download restarts',
    killedIn: 'load*, resync*, 410*, bad downloads*',
  },
  'feed.note-finished-file': {
    effect: 'writes a note about a finished file that has no digest',
    killedIn: 'no digests*',
  },
  'feed.note-part-origin': {
    effect: 'writes a note about the file that a part belongs to',
    killedIn: 'load*, resync*, 410*',
  },
  'feed.open-part': {
    effect: 'creates the file of a download',
    killedIn: 'load*, resync*, 410*, cut downloads*',
  },
  'feed.spool-changes': {
    effect: 'writes a page of changes',
    killedIn: 'apply*, alter*, publish*',
  },
  'feed.sync-download': {
    effect: 'syncs a large download',
    killedIn: 'large file*',
  },
  'post-commit.clear-export': {
    effect: 'removes an incomplete file of the export',
    killedIn: 'export',
  },
  'post-commit.clear-exported': {
    effect: 'removes the remains of a file of the export',
    killedIn: 'export*',
  },
  'post-commit.keep-manifest': {
    effect: 'keeps the current generation under a name of its own',
    killedIn: 'export',
  },
  'post-commit.make-dataset-folder': {
    effect: 'creates the folder of a file of the export',
    killedIn: 'export*',
  },
  'post-commit.make-export-folder': {
    effect: 'creates the folder of the export',
    killedIn: 'export',
  },
  'post-commit.place-exported': {
    effect: 'gives a file of the export its name',
    killedIn: 'export*',
  },
  'post-commit.remove-exported': {
    effect: 'removes a file that no kept generation names',
    killedIn: 'export*',
  },
  'post-commit.remove-exported-folder': {
    effect: 'removes an empty folder of the export',
    killedIn: 'export*',
  },
  'post-commit.remove-manifest': {
    effect: 'removes an old generation',
    killedIn: 'export',
  },
  'post-commit.settle-exported': {
    effect: 'syncs a file of the export',
    killedIn: 'export*',
  },
  'post-commit.switch-manifest': {
    effect: 'replaces the last generation of the export by a new one',
    killedIn: 'export',
  },
  'staging.coalesce-changes': {
    effect: 'writes the net change of several versions',
    killedIn: 'apply',
  },
  'staging.decode-changes': {
    effect: 'decodes pages of changes into a file of rows',
    killedIn: 'apply*, alter*, publish*',
  },
  'staging.export-table': {
    effect: 'writes the table of a dataset to a file of the export',
    killedIn: 'export*',
  },
  'staging.split-page': {
    effect: 'writes a part of a page that is too large',
    killedIn: 'large pages*',
  },
  'sync.discard-candidate': {
    effect: 'removes the files of a candidate',
    killedIn: 'wait*, correct*, approve',
  },
  'sync.discard-changes': {
    effect: 'removes pages of changes',
    killedIn: 'apply*, alter*, publish*',
  },
  'sync.discard-staged': {
    effect: 'removes downloads that were committed',
    killedIn: 'load*, apply*, alter*, resync*, 410*, publish*',
  },
  'sync.discard-unwanted': {
    effect: 'removes downloads that no desired state needs any more',
    killedIn: 'undesired*',
  },
  'sync.evict-candidate': {
    effect: 'removes files of a candidate to free space',
    killedIn: 'evict*',
  },
  'sync.keep-candidate': {
    effect: 'moves a file of a candidate to its place',
    killedIn: 'wait*',
  },
  'sync.make-candidate-folder': {
    effect: 'creates the folder of a candidate',
    killedIn: 'wait*',
  },
  'sync.make-changes-folder': {
    effect: 'creates the folder for pages of changes',
    killedIn: 'apply*, alter*, publish*',
  },
  'sync.make-staging': {
    effect: 'creates the folder of all downloads',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'sync.make-staging-folder': {
    effect: 'creates the folder for downloads of a dataset',
    killedIn: 'load*, reload*, resync*, 410*',
  },
};

/** The scenarios in which a COMMIT of each kind is killed. The type makes the compiler refuse a missing kind. */
export const KILLED_COMMITS: Readonly<Record<CommitKind, string>> = {
  load: 'load',
  changes: 'apply',
  reload: 'reload',
  retire: 'retire (archive)',
  return: 'return',
  repair: 'repair',
  rollback: 'roll back',
};

/** The scenarios in which a transaction with the writes of these functions of `history.ts` is killed. */
export const KILLED_STEPS_OF_LOGS: Readonly<Record<string, string>> = {
  beginLog: 'freeze',
  createLog: 'log',
  recordEntries: 'log',
  logCommit: 'log',
  addToLog: 'log',
  asOfMacros: 'log',
  closeLog: 'close',
  deleteEntries: 'forget the past',
  freezeLog: 'freeze',
  copyFrozen: 'freeze',
  dropLog: 'forget the past',
  viewFrozen: 'keep the past',
  freezeKept: 'return',
};

export interface Occurrence {
  readonly scenario: string;
  readonly isRepeated: boolean;
}

export function occurrencesOf({ killedIn }: CatalogueEntry): readonly Occurrence[] {
  return killedIn
    .split(', ')
    .map((text) => ({ scenario: text.replace(/\*$/, ''), isRepeated: text.endsWith('*') }));
}

/** The names that are killed in a scenario. */
export function namesOf(scenario: string): readonly string[] {
  return Object.entries(CATALOGUE).flatMap(([name, entry]) =>
    occurrencesOf(entry).some((occurrence) => occurrence.scenario === scenario) ? [name] : [],
  );
}

/** The table of the README of this folder. */
export function catalogueTable(): readonly string[] {
  const lines = Object.entries(CATALOGUE).map(
    ([name, { effect, killedIn }]) => `| \`${name}\` | ${effect} | ${killedIn} |`,
  );
  return ['| name | effect | killed in |', '|---|---|---|', ...lines];
}
