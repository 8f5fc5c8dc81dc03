/** Settings of installations beside a feed that never rests. */

/** Variables of an installation that notices every change within about a second, and drops what leaves. */
export const QUICK_SETTINGS = {
  FEED_SYNC_POLL_EVERY: '1s',
  FEED_SYNC_RETRY_BASE_DELAY: '20ms',
  FEED_SYNC_RETRY_MAX_DELAY: '200ms',
  FEED_SYNC_DISK_RESERVE: '0MB',
  FEED_SYNC_REMOVED_DATASETS: 'drop',
};
