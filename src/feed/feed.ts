/**
 * The port of the service: every call that the rest of the program may make. Only this folder knows paths, parameters, field
 * names and status codes.
 *
 * Every operation may throw `ServiceUnavailableError` (after all retries), `RefusalError`, `ContractViolationError` and
 * `InterruptedError` (the signal was aborted). Further errors are named at the operation.
 *
 * `readAt` is service time: the `Date` of the answer, or the local clock at its receipt when the answer has no date. For a list
 * it is the time of the first page.
 */

import type { Contract } from '../model/contract.ts';
import type { EventId, FeedEvent, UnreadableEvent } from '../model/event.ts';
import type { Manifest, ManifestEntry } from '../model/manifest.ts';
import type { Schema, Subscription, Version } from '../model/records.ts';

export interface Feed {
  /** The scheme, host and port of the base URL. They identify the service, and the key is sent to no other origin. */
  readonly origin: string;

  /** Settles the names that the interface leaves open from the service's own description. A missing description is no error. */
  discover(signal: AbortSignal): Promise<Contract>;

  /**
   * GET /v1/subscriptions, all pages.
   * @throws ConfigurationError when the list is missing and no call at the origin ever succeeded.
   */
  subscriptions(signal: AbortSignal): Promise<SubscriptionList>;

  /**
   * GET /v1/subscriptions/{subscriptionId}/events, one page.
   * @throws CursorExpiredError when `after` is past retention.
   */
  events(subscriptionId: string, after: EventId | null, signal: AbortSignal): Promise<EventPage>;

  /**
   * GET /v1/datasets/{datasetId}/versions: the versions newer than `newerThan`, newest first, whether or not the service
   * honours the filter.
   */
  versions(datasetId: string, newerThan: number | null, signal: AbortSignal): Promise<VersionList>;

  /** GET /v1/datasets/{datasetId}/schemas, all pages, newest first. */
  schemas(datasetId: string, signal: AbortSignal): Promise<readonly Schema[]>;

  /**
   * GET /v1/datasets/{datasetId}/changes?version=, all pages, spooled to files as received. Only for a version in the list of
   * versions: a missing page then means that its changes were not recorded.
   * @throws StorageError when the disk is full or not writable.
   */
  changes(request: ChangesRequest, signal: AbortSignal): Promise<Changes>;

  /** Returns whether a manifest lists the datasets of a subscription or describes one dataset; known after `discover`. */
  manifestShape(): 'subscription' | 'dataset';

  /** Reads all pages of a subscription's manifest. Only for the shape `subscription`. */
  manifest(subscriptionId: string, signal: AbortSignal): Promise<Manifest>;

  /** Reads the manifest entry of one dataset. Only for the shape `dataset`. */
  manifestEntry(datasetId: string, signal: AbortSignal): Promise<DatasetManifest>;

  /**
   * Downloads the files of a snapshot into `directory`, several at a time, verified and resumable.
   * @throws DataError `content_mismatch` when a file keeps differing from its stated length or digest.
   * @throws DataError when a file without a stated digest keeps being no Parquet file, or its link is not allowed.
   * @throws StorageError when the disk is full or not writable.
   */
  download(request: DownloadRequest, signal: AbortSignal): Promise<Download>;

  /**
   * Returns a number that changes while files are read for their digests, which `onBytes` does not report. Cheap to call.
   */
  progress(): number;

  close(): Promise<void>;
}

export interface SubscriptionList {
  readonly subscriptions: readonly Subscription[];
  readonly readAt: Date;
}

export interface VersionList {
  /** Newest first. */
  readonly versions: readonly Version[];
  readonly readAt: Date;
}

/** The manifest of one dataset. */
export interface DatasetManifest {
  readonly entry: ManifestEntry;
  readonly readAt: Date;
}

export interface EventPage {
  /** In the order of the page. */
  readonly events: readonly (FeedEvent | UnreadableEvent)[];
  readonly hasMore: boolean;
  readonly readAt: Date;
}

export interface ChangesRequest {
  readonly datasetId: string;
  readonly version: number;
  /** Returns the path for a page, from 0, in an existing folder. The pages may be lost in a loss of power. */
  readonly pathOf: (page: number) => string;
  /** Called with the number of bytes that arrived since the last call. */
  readonly onBytes: (bytes: number) => void;
  /**
   * Called before each page is written, with the total size of the pages of this version, including this one. An error that the
   * callback throws ends the call.
   */
  readonly onStaging?: (bytes: number) => Promise<void>;
}

/** The changes of a version, or the fact that the service has not recorded them. */
export type Changes =
  | { readonly recorded: false; readonly why: string }
  | {
      readonly recorded: true;
      readonly previousVersion: number | null;
      readonly schemaVersion: string | null;
      /** The paths of the spooled pages in order; each contains one response body as sent. */
      readonly pages: readonly string[];
      /** The size of all pages. */
      readonly bytes: number;
    };

export interface DownloadRequest {
  readonly entry: ManifestEntry;
  /** An existing folder. Existing parts of a file are reused only when a digest or an entity tag proves them equal. */
  readonly directory: string;
  /** Reads the manifest again for fresh URLs; returns null when the dataset is no longer listed. */
  readonly refresh: () => Promise<ManifestEntry | null>;
  /** Called with the number of bytes that arrived since the last call. */
  readonly onBytes: (bytes: number) => void;
}

export type Download =
  | {
      readonly kind: 'complete';
      readonly files: readonly DownloadedFile[];
      /** `stated`: the entry stated the digests of all files. `computed`: some were computed while the files arrived. */
      readonly digestKind: 'stated' | 'computed';
      /**
       * True when digests or entity tags prove that all files belong to one content. Otherwise the content may have been
       * replaced between two files.
       */
      readonly isSurelyOneContent: boolean;
    }
  /**
   * The manifest names other content now, or the content behind the links was replaced. Files that both contents share stay in
   * the folder. Null: the dataset is gone.
   */
  | { readonly kind: 'superseded'; readonly entry: ManifestEntry | null };

export interface DownloadedFile {
  readonly path: string;
  /** The last part of the URL's path, without query, by which people recognise the file. */
  readonly name: string;
  readonly bytes: number;
  readonly sha256: string;
  /** The row count that the manifest states. */
  readonly rowCount: number | null;
}
