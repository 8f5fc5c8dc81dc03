/**
 * Every durable effect of the program: what it is, and in which scenarios a process is killed just before and just after
 * it. With a star the name occurs there more than once, and the last occurrence is killed, too; without one there is only
 * the first. A test compares this with the sources, with what is recorded, and with the table of the README of this folder.
 */

import type { CommitKind } from '../../src/model/commits.ts';

export interface CatalogueEntry {
  readonly what: string;
  /** Names of scenarios, with a comma and a blank between them. */
  readonly killedIn: string;
}

export const CATALOGUE: Readonly<Record<string, CatalogueEntry>> = {
  'checkpoint.adopt': {
    what: 'what the mirror knows and an older checkpoint does not',
    killedIn: 'checkpoint quarantined',
  },
  'checkpoint.approve-retirements': {
    what: 'a person agrees to retirements',
    killedIn: 'agree to retirements',
  },
  'checkpoint.ask': {
    what: 'a request of an operator, or that its command still waits',
    killedIn: 'roll back, unpin, repair, approve',
  },
  'checkpoint.begin-request': {
    what: 'a request of an operator is begun',
    killedIn: 'requested, roll back, unpin, approve',
  },
  'checkpoint.clear-failure': {
    what: 'a dataset that failed no more',
    killedIn: 'cut downloads*, mend*',
  },
  'checkpoint.clear-forgotten': {
    what: 'subscriptions that were given up are done with',
    killedIn: 'given up',
  },
  'checkpoint.create': {
    what: 'the empty file of the checkpoint',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish, checkpoint quarantined*',
  },
  'checkpoint.create-lock': {
    what: 'the empty file of the instance lock',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'checkpoint.fail': {
    what: 'a dataset that failed',
    killedIn: 'fail*',
  },
  'checkpoint.follow-step': {
    what: 'the desired states and the position of a subscription',
    killedIn: 'load*, apply, alter, resync, 410*, retire (archive), publish',
  },
  'checkpoint.forget': {
    what: 'a person gives up a subscription',
    killedIn: 'give up',
  },
  'checkpoint.forget-webhook': {
    what: 'a webhook that an operator forgets',
    killedIn: 'webhook remove',
  },
  'checkpoint.hook-failed': {
    what: 'that the hook failed',
    killedIn: 'hook fails',
  },
  'checkpoint.hook-reported': {
    what: 'the commits that were reported to the hook',
    killedIn: 'publish, publish first, publish again*',
  },
  'checkpoint.keep-candidate': {
    what: 'content that waits for approval',
    killedIn: 'wait*, evict, approve',
  },
  'checkpoint.keep-notifications': {
    what: 'what an operator was notified of',
    killedIn: 'notify',
  },
  'checkpoint.keep-scrub': {
    what: 'how far the mirror was scrubbed, or that it is to be examined',
    killedIn: 'scrub',
  },
  'checkpoint.keep-webhook': {
    what: 'the id of a webhook that was added',
    killedIn: 'webhook add',
  },
  'checkpoint.lift': {
    what: 'an operator lifts a suspension',
    killedIn: 'lift*',
  },
  'checkpoint.make-directory': {
    what: 'the folder of the checkpoint',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'checkpoint.make-lock-directory': {
    what: 'the folder of the instance lock',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'checkpoint.mark-refreshed': {
    what: 'a metadata refresh that was requested is done',
    killedIn: 'alter*, reload*, 410*',
  },
  'checkpoint.mark-satisfied': {
    what: 'reloads that were asked for are done',
    killedIn: 'reload, resync*, 410*',
  },
  'checkpoint.migrate': {
    what: 'the tables of a new checkpoint, or of a migrated one',
    killedIn: 'load, migrate',
  },
  'checkpoint.note-absences': {
    what: 'what a complete read lacked, or showed again',
    killedIn: 'withdrawn*',
  },
  'checkpoint.note-audited': {
    what: 'when the datasets of a subscription were compared with the service',
    killedIn: 'load*, apply, alter, resync, 410*, retire (archive)*, publish',
  },
  'checkpoint.note-listed': {
    what: 'the first list of versions after a reload was asked for',
    killedIn: 'reload, resync*, 410*',
  },
  'checkpoint.note-poll': {
    what: 'when the service was last reached, or what failed',
    killedIn: 'load*, apply*, alter*, resync*, 410*, retire (archive)*, publish*',
  },
  'checkpoint.note-retired': {
    what: 'what is owed of a table that is no more',
    killedIn: 'retire (archive)*, retire (drop)*, retire (keep)*',
  },
  'checkpoint.note-stated': {
    what: 'that the service states the last event of a subscription',
    killedIn: 'load*',
  },
  'checkpoint.owe-again': {
    what: 'the reloads that a rollback may leave unsatisfied',
    killedIn: 'roll back',
  },
  'checkpoint.quarantine': {
    what: 'a damaged checkpoint gets another name',
    killedIn: 'checkpoint quarantined',
  },
  'checkpoint.quarantine-log': {
    what: 'so does its log',
    killedIn: 'checkpoint quarantined',
  },
  'checkpoint.quarantine-log-index': {
    what: 'and the index of that',
    killedIn: 'checkpoint quarantined',
  },
  'checkpoint.release-lock': {
    what: 'the lock released in order',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'checkpoint.remember-contract': {
    what: 'what was discovered of the interface',
    killedIn: 'load, apply, alter, resync, 410, retire (archive)*, publish',
  },
  'checkpoint.remember-delivery': {
    what: 'a delivery of a webhook',
    killedIn: 'deliveries*',
  },
  'checkpoint.remove-candidate': {
    what: 'content that waited is over',
    killedIn: 'correct*, approve',
  },
  'checkpoint.request-resync': {
    what: 'a person asks for resyncs',
    killedIn: 'ask for a resync',
  },
  'checkpoint.settle-request': {
    what: 'the answer to a request of an operator, or that it was taken back',
    killedIn: 'requested, roll back, unpin, approve',
  },
  'checkpoint.suspend': {
    what: 'a suspension, until an operator acts',
    killedIn: 'refuse*',
  },
  'checkpoint.sync-run': {
    what: 'a line about a sync run, for people',
    killedIn:
      'load*, apply*, alter*, resync*, 410*, retire (archive)*, retire (drop)*, retire (keep)*, publish*',
  },
  'checkpoint.void-announced': {
    what: 'announced versions that are taken for withdrawn',
    killedIn: 'withdrawn*',
  },
  'checkpoint.write-lock-holder': {
    what: 'who holds the lock, for people',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'cli.add-secret': {
    what: 'the secret of a webhook, put before the others',
    killedIn: 'webhook add',
  },
  'cli.clear-query-folder': {
    what: 'the folder of the rows goes, and so does one that a killed query has left',
    killedIn: 'query to a file',
  },
  'cli.end-try-of-secret-file': {
    what: 'the file of that try goes, where there was none',
    killedIn: 'webhook add',
  },
  'cli.init': {
    what: 'a configuration file',
    killedIn: 'init',
  },
  'cli.make-query-folder': {
    what: 'the folder in which the rows of a query are written',
    killedIn: 'query to a file',
  },
  'cli.make-verify-folder': {
    what: 'the folder of `verify --deep`',
    killedIn: 'repair',
  },
  'cli.open-query-result': {
    what: 'the empty file of the rows',
    killedIn: 'query to a file',
  },
  'cli.place-query-result': {
    what: 'the file of the rows gets its name',
    killedIn: 'query to a file',
  },
  'cli.remember-verified': {
    what: 'a table that was found equal, until the comparison of all has ended',
    killedIn: 'repair',
  },
  'cli.remove-secret': {
    what: 'the secret of a webhook is taken out of its file',
    killedIn: 'webhook remove',
  },
  'cli.remove-verify-folder': {
    what: 'the folder of `verify --deep` goes',
    killedIn: 'repair',
  },
  'cli.settle-query-result': {
    what: 'the rows on the disk, before their file gets its name',
    killedIn: 'query to a file',
  },
  'cli.try-secret-file': {
    what: 'the file of secrets as it is, to see that it can be written',
    killedIn: 'webhook add',
  },
  'daemon.remove-stale-socket': {
    what: 'the file of the socket of a status server that was killed',
    killedIn: 'stale socket',
  },
  'destination.attach': {
    what: 'the mirror opened for writing, and made where it is missing',
    killedIn: 'load*, apply*, alter*, resync*, 410*, retire (archive)*, publish*',
  },
  'destination.checkpoint': {
    what: 'the log of the mirror put into its file',
    killedIn: 'load*, apply*, alter*, resync*, 410*, retire (archive)*, publish*',
  },
  'destination.commit': {
    what: 'COMMIT in the mirror: rows, version and history',
    killedIn:
      'load*, apply*, alter*, reload*, resync*, 410*, retire (archive)*, retire (drop)*, retire (keep)*, publish*, mirror quarantined*, asked resync*, given up, roll back*, repair*, approve*, log*, close*, freeze*, keep the past*, return*',
  },
  'destination.compact': {
    what: 'the compacted mirror gets the name of the old one',
    killedIn: 'compact',
  },
  'destination.compact-attach': {
    what: 'what is left in the log is put into the mirror before it is copied',
    killedIn: 'compact',
  },
  'destination.compact-clear': {
    what: 'what an earlier compact has left goes',
    killedIn: 'compact*',
  },
  'destination.compact-commit': {
    what: 'COMMIT of what was copied',
    killedIn: 'compact',
  },
  'destination.compact-create': {
    what: 'the new file of compact',
    killedIn: 'compact',
  },
  'destination.compact-give': {
    what: 'the new file becomes that of the owner of the old one',
    killedIn: 'compact',
  },
  'destination.compact-no-log': {
    what: 'the log of the mirror put into its file, before rows are copied',
    killedIn: 'compact',
  },
  'destination.compact-settle': {
    what: 'mode and fsync of the new file',
    killedIn: 'compact',
  },
  'destination.compact-write': {
    what: 'the log of the new file put into it',
    killedIn: 'compact',
  },
  'destination.cut-log': {
    what: 'the log of the mirror loses its end, which cannot be read, once the whole of it is copied',
    killedIn: 'torn log',
  },
  'destination.forget-past': {
    what: 'COMMIT in the mirror: a part of the past that is older than it is to be kept goes',
    killedIn: 'forget the past*',
  },
  'destination.lift-pin': {
    what: 'COMMIT in the mirror: the end of the pin that a rollback has set',
    killedIn: 'unpin',
  },
  'destination.make-directory': {
    what: 'the folder of the mirror',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'destination.make-publish-directory': {
    what: 'the folder of the published copy',
    killedIn: 'publish, publish first',
  },
  'destination.publish': {
    what: 'the copy gets its name',
    killedIn: 'publish, publish first, publish again*',
  },
  'destination.publish-clear': {
    what: 'what an earlier process has left of a copy goes',
    killedIn: 'publish, publish first, publish again*',
  },
  'destination.publish-clear-log': {
    what: 'a log that somebody has left beside the copy goes',
    killedIn: 'publish, publish again*',
  },
  'destination.publish-clone': {
    what: 'the copy of the mirror as a clone, where that can be',
    killedIn: 'publish, publish again*',
  },
  'destination.publish-copy': {
    what: 'the bytes of the copy',
    killedIn: 'publish, publish again*',
  },
  'destination.publish-discard': {
    what: 'a copy that is not published goes',
    killedIn: 'publish in vain',
  },
  'destination.publish-open': {
    what: 'the empty file of the copy',
    killedIn: 'publish, publish again*',
  },
  'destination.publish-settle': {
    what: 'mode and fsync of the copy',
    killedIn: 'publish, publish first, publish again*',
  },
  'destination.quarantine': {
    what: 'so does the mirror',
    killedIn: 'mirror quarantined',
  },
  'destination.quarantine-log': {
    what: 'the log of a mirror that cannot be read gets another name',
    killedIn: 'mirror quarantined',
  },
  'destination.remove-empty': {
    what: 'an empty mirror that cannot be opened goes',
    killedIn: 'empty mirror',
  },
  'destination.remove-old-log': {
    what: 'the oldest of the logs that were kept so goes',
    killedIn: 'torn log',
  },
  'destination.store-checksums': {
    what: 'COMMIT in the mirror: the checksum of a table that was found right, or whose hash is another',
    killedIn: 'checksums*',
  },
  'destination.store-progress': {
    what: 'COMMIT in the mirror: how far it has followed the service, and told the hook',
    killedIn: 'load, apply, alter, resync, 410, retire (archive)*, publish*',
  },
  'destination.sync-entries': {
    what: 'the names of the mirror and its log put on the disk after COMMIT',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'feed.drop-finished-origin': {
    what: 'the note of the part goes',
    killedIn: 'load*, resync*, 410*, cut downloads*, no digests*',
  },
  'feed.drop-part': {
    what: 'so does the part',
    killedIn: 'bad downloads*',
  },
  'feed.drop-part-origin': {
    what: 'the note of a part that is bad goes',
    killedIn: 'bad downloads*',
  },
  'feed.finish-file': {
    what: 'a verified download gets its name',
    killedIn: 'load*, resync*, 410*, cut downloads*, no digests*',
  },
  'feed.forget-finished-file': {
    what: 'the note of a finished file goes, before another takes its place',
    killedIn: 'no digests*',
  },
  'feed.forget-part-origin': {
    what: 'the note of what a part is a part of goes, before it begins anew',
    killedIn: 'load*, resync*, 410*, bad downloads*',
  },
  'feed.note-finished-file': {
    what: 'what a finished file is, where no digest says so',
    killedIn: 'no digests*',
  },
  'feed.note-part-origin': {
    what: 'the note of what it is a part of',
    killedIn: 'load*, resync*, 410*',
  },
  'feed.open-part': {
    what: 'the file of a download',
    killedIn: 'load*, resync*, 410*, cut downloads*',
  },
  'feed.spool-changes': {
    what: 'a page of changes',
    killedIn: 'apply*, alter*, publish*',
  },
  'feed.sync-download': {
    what: 'fsync of a download',
    killedIn: 'load*, resync*, 410*, cut downloads*',
  },
  'post-commit.clear-export': {
    what: 'a file of the export that is not whole goes',
    killedIn: 'export',
  },
  'post-commit.clear-exported': {
    what: 'what an earlier process has left of a file of the export goes',
    killedIn: 'export*',
  },
  'post-commit.keep-manifest': {
    what: 'the generation that readers have gets a name of its own',
    killedIn: 'export',
  },
  'post-commit.make-dataset-folder': {
    what: 'the folder of a file of the export',
    killedIn: 'export*',
  },
  'post-commit.make-export-folder': {
    what: 'the folder of the export',
    killedIn: 'export',
  },
  'post-commit.place-exported': {
    what: 'a file of the export gets its name',
    killedIn: 'export*',
  },
  'post-commit.remove-exported': {
    what: 'a file that no kept generation names goes',
    killedIn: 'export*',
  },
  'post-commit.remove-exported-folder': {
    what: 'a folder of the export without files goes',
    killedIn: 'export*',
  },
  'post-commit.remove-manifest': {
    what: 'a generation that is not kept any more goes',
    killedIn: 'export',
  },
  'post-commit.settle-exported': {
    what: 'a file of the export onto the disk',
    killedIn: 'export*',
  },
  'post-commit.switch-manifest': {
    what: 'a new generation of the export takes the place of the last one',
    killedIn: 'export',
  },
  'staging.coalesce-changes': {
    what: 'the net change of several versions',
    killedIn: 'apply',
  },
  'staging.decode-changes': {
    what: 'pages of changes as a file of rows',
    killedIn: 'apply*, alter*, publish*',
  },
  'staging.export-table': {
    what: 'the table of a dataset in a file of the export',
    killedIn: 'export*',
  },
  'staging.split-page': {
    what: 'a part of a page that is too large',
    killedIn: 'large pages*',
  },
  'sync.discard-candidate': {
    what: 'the files of content that waited go',
    killedIn: 'wait*, correct*, approve',
  },
  'sync.discard-changes': {
    what: 'pages of changes go',
    killedIn: 'apply*, alter*, publish*',
  },
  'sync.discard-staged': {
    what: 'downloads that were committed go',
    killedIn: 'load*, apply*, alter*, resync*, 410*, publish*',
  },
  'sync.discard-unwanted': {
    what: 'downloads of what is wanted no more go',
    killedIn: 'unwanted*',
  },
  'sync.evict-candidate': {
    what: 'files of content that waits make room',
    killedIn: 'evict*',
  },
  'sync.keep-candidate': {
    what: 'a file of content that waits gets its place',
    killedIn: 'wait*',
  },
  'sync.make-candidate-folder': {
    what: 'the folder of content that waits',
    killedIn: 'wait*',
  },
  'sync.make-changes-folder': {
    what: 'the folder of a version for pages of changes',
    killedIn: 'apply*, alter*, publish*',
  },
  'sync.make-staging': {
    what: 'the folder of all downloads',
    killedIn: 'load, apply, alter, resync, 410, retire (archive), publish',
  },
  'sync.make-staging-folder': {
    what: 'the folder of a dataset for downloads',
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

/** The scenarios in which a transaction is killed that holds what these functions of `history.ts` write. */
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
    ([name, { what, killedIn }]) => `| \`${name}\` | ${what} | ${killedIn} |`,
  );
  return ['| name | what it is | killed in |', '|---|---|---|', ...lines];
}
