/** What the status server takes on at most. Each limit is small: those who ask are supervisors, scrapers and one service. */

/** All headers of a request. */
export const MAX_HEADER_BYTES = 8_192;
export const MAX_HEADER_COUNT = 64;

/** A webhook's body, which is never looked into. Standard Webhooks advise 20 KB. */
export const MAX_BODY_BYTES = 256_000;

/** From the first byte of a request to its last; its headers have less. */
export const REQUEST_TIMEOUT_MS = 10_000;
export const HEADERS_TIMEOUT_MS = 5_000;
/** How often requests are held against these. */
export const TIMEOUT_CHECK_MS = 1_000;

/** Without a byte in either direction a connection is closed; that of a reader who stopped reading, after twice as long. */
export const IDLE_TIMEOUT_MS = 10_000;
/** Between two requests on a connection. */
export const KEEP_ALIVE_TIMEOUT_MS = 5_000;

/** Further ones are closed as they come. */
export const MAX_CONNECTIONS = 64;

/** Answers that are begun have this long when the server closes. */
export const CLOSE_TIMEOUT_MS = 2_000;

/** Datasets and subscriptions that have metrics of their own; of more, those that are furthest behind. */
export const MAX_LABELLED_DATASETS = 5_000;
export const MAX_LABELLED_SUBSCRIPTIONS = 1_000;
/** Troubles that have a metric of their own; of more, those that last for longest. */
export const MAX_LABELLED_INCIDENTS = 100;
/** Codes of holds that are told apart; the others are one. */
export const MAX_LABELLED_CODES = 50;
/** A longer label value is cut, and made different by a digest. */
export const MAX_LABEL_CHARACTERS = 200;

/** Datasets that `/healthz` names; `/status` names all. */
export const MAX_NAMED_DATASETS = 100;

/** How far the clock of who sent a webhook may be off. */
export const WEBHOOK_TOLERANCE_MS = 5 * 60_000;
export const MAX_WEBHOOK_ID_CHARACTERS = 256;
/** Signatures of one delivery that are tried. More are refused. */
export const MAX_SIGNATURES = 16;

/** After it was woken, the loop is left alone for so long. */
export const WAKE_PAUSE_MS = 500;

/** A loop that went round no more for so long is stuck. */
export const LOOP_STUCK_AFTER_MS = 5 * 60_000;
