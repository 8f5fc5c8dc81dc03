/** The limits of the status server. Each limit is small: its clients are supervisors, scrapers and one service. */

/** All headers of a request. */
export const MAX_HEADER_BYTES = 8_192;
export const MAX_HEADER_COUNT = 64;

/** The body of a webhook, which is never parsed. Standard Webhooks advise 20 KB. */
export const MAX_BODY_BYTES = 256_000;

/** From the first byte of a request to its last; the headers have less time. */
export const REQUEST_TIMEOUT_MS = 10_000;
export const HEADERS_TIMEOUT_MS = 5_000;
/** How often requests are checked against these limits. */
export const TIMEOUT_CHECK_MS = 1_000;

/**
 * A connection without a byte in either direction is closed after this; the connection of a reader that stopped reading, after twice as
 * long.
 */
export const IDLE_TIMEOUT_MS = 10_000;
/** Between two requests on a connection. */
export const KEEP_ALIVE_TIMEOUT_MS = 5_000;

/** One more takes the place of the connection that has been without an answer for longest. */
export const MAX_CONNECTIONS = 64;

/** Requests of one connection that wait for their turn. A connection with more is closed. */
export const MAX_WAITING_REQUESTS = 8;

/** An answer is made once for all who ask within this time, or for longer where making it takes long. */
export const SHARED_FOR_MS = 1_000;
/** An answer is shared for so many times as long as it took to make, so that making it takes a twentieth of the time at most. */
export const SHARED_PER_MAKING = 20;
/** However long it took. */
export const MAX_SHARED_FOR_MS = 10_000;

/** The part of an answer that is handed to the system before other connections have their turn. */
export const SENT_AT_ONCE_BYTES = 65_536;

/** A client that has not taken a response within this time is dropped, however steadily it reads. */
export const SEND_TIMEOUT_MS = 10_000;

/** The token of `status.tokenFile`. */
export const MIN_TOKEN_CHARACTERS = 16;
export const MAX_TOKEN_CHARACTERS = 1_024;

/** Started responses have this long when the server closes. */
export const CLOSE_TIMEOUT_MS = 2_000;

/** Datasets and subscriptions with metrics of their own; of more, the ones that are furthest behind. */
export const MAX_LABELLED_DATASETS = 5_000;
export const MAX_LABELLED_SUBSCRIPTIONS = 1_000;
/** Incidents with a metric of their own; of more, the longest ones. */
export const MAX_LABELLED_INCIDENTS = 100;
/** Codes of suspensions with a label of their own; all others share one. */
export const MAX_LABELLED_CODES = 50;
/** A longer label value is cut, and made unique by a digest. */
export const MAX_LABEL_CHARACTERS = 200;

/** Datasets that `/healthz` names; `/status` names all. */
export const MAX_NAMED_DATASETS = 100;

/** The most entries of each kind that the page shows; it says how many there are. */
export const MAX_SHOWN_SUBSCRIPTIONS = 50;
export const MAX_SHOWN_UNIONS = 50;
export const MAX_SHOWN_COMMITS = 8;
export const MAX_SHOWN_STEPS = 10;
export const MAX_SHOWN_NAMES = 5;

/** The largest difference to the clock of a webhook's sender. */
export const WEBHOOK_TOLERANCE_MS = 5 * 60_000;
export const MAX_WEBHOOK_ID_CHARACTERS = 256;
/** The most signatures of one delivery; more are refused. */
export const MAX_SIGNATURES = 16;

/** The pause between two wake-ups of the loop. */
export const WAKE_PAUSE_MS = 500;

/** A loop without a round for so long is stuck. */
export const LOOP_STUCK_AFTER_MS = 5 * 60_000;
