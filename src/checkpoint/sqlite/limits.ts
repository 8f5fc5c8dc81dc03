/** What the checkpoint holds at most. Everything in it has one of these limits. */

/** How long a call waits for another process of ours that writes. It blocks, so it is short. */
export const BUSY_TIMEOUT_MS = 5_000;

/** Ids, names from the contract: kept whole or refused. What the service may send is no longer than this. */
export const MAX_ID_CHARACTERS = 10_000;

/** Texts for people: messages, hints, names. Longer ones are cut. */
export const MAX_TEXT_CHARACTERS = 8_000;

/** Links of one refusal. Further ones are left out. */
export const MAX_LINKS = 50;

/** Lines of the journal. The oldest are dropped. */
export const MAX_JOURNAL_LINES = 10_000;

/** Webhooks that were added from here. The oldest are dropped. */
export const MAX_WEBHOOKS = 100;

/** Ids of webhooks that arrived. The oldest are dropped, and those that nobody sends again after so long. */
export const MAX_DELIVERIES = 10_000;
export const MAX_DELIVERY_AGE_MS = 7 * 86_400_000;

/** Damaged files that are kept beside the new one. With as many, something destroys them and a person must look. */
export const MAX_CORRUPT_COPIES = 3;

/** The write-ahead log is cut back to this after a checkpoint of SQLite's own. */
export const MAX_KEPT_WAL_BYTES = 16_000_000;
