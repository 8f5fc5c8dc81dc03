/**
 * The port of the service: what the rest of the program may ask of it. Everything that knows paths, parameters,
 * field names and status codes is behind it.
 *
 * Every operation may throw `ServiceUnavailableError` (retries are already spent), `RefusalError`,
 * `ContractViolationError` and `InterruptedError` (the signal was aborted). Others are named at the operation.
 *
 * `readAt` is service time: the `Date` of the answer, or the local clock at its receipt where the answer has none. Of a
 * list it is that of the first page.
 */

import type { Contract } from '../model/contract.ts';
import type { EventId, FeedEvent, UnreadableEvent } from '../model/event.ts';
import type { Manifest, ManifestEntry } from '../model/manifest.ts';
import type { Schema, Subscription, Version } from '../model/records.ts';

export interface Feed {
  /** The scheme, host and port of the base URL: the identity of the service, and the one place the key is sent to. */
  readonly origin: string;

  /** Reads the service's description of itself and settles the names that the interface leaves open. Never fails for its absence. */
  discover(signal: AbortSignal): Promise<Contract>;

  /**
   * GET /v1/subscriptions, all pages.
   * @throws ConfigurationError where there is no such list, and no call at the origin ever succeeded.
   */
  subscriptions(signal: AbortSignal): Promise<SubscriptionList>;

  /**
   * GET /v1/subscriptions/{subscriptionId}/events, one page.
   * @throws CursorExpiredError when `after` is past retention.
   */
  events(subscriptionId: string, after: EventId | null, signal: AbortSignal): Promise<EventPage>;

  /** GET /v1/datasets/{datasetId}/versions: those newer than `newerThan`, newest first; whether or not the service honours the filter. */
  versions(datasetId: string, newerThan: number | null, signal: AbortSignal): Promise<VersionList>;

  /** GET /v1/datasets/{datasetId}/schemas, all pages, newest first. */
  schemas(datasetId: string, signal: AbortSignal): Promise<readonly Schema[]>;

  /**
   * GET /v1/datasets/{datasetId}/changes?version=, all pages, spooled to files as they came. Only for a version that
   * the list of versions names: then an answer that there is nothing means that its changes were not recorded.
   * @throws StorageError when the disk is full or not writable.
   */
  changes(request: ChangesRequest, signal: AbortSignal): Promise<Changes>;

  /** Whether the manifest lists the datasets of a subscription or describes one dataset; known after `discover`. */
  manifestShape(): 'subscription' | 'dataset';

  /** The manifest of a subscription, all pages. Only where the shape is `subscription`. */
  manifest(subscriptionId: string, signal: AbortSignal): Promise<Manifest>;

  /** The manifest entry of one dataset. Only where the shape is `dataset`. */
  manifestEntry(datasetId: string, signal: AbortSignal): Promise<DatasetManifest>;

  /**
   * Downloads the files of a snapshot into `directory`, several at a time, verified and resumable.
   * @throws DataError `content_mismatch` when a file keeps differing from its stated length or digest.
   * @throws DataError when a file without a stated digest keeps being no Parquet file, or its link is not allowed.
   * @throws StorageError when the disk is full or not writable.
   */
  download(request: DownloadRequest, signal: AbortSignal): Promise<Download>;

  /**
   * Changes while files are read for their digests, of which `onBytes` does not tell. Cheap to call.
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
  /** Where the pages are written: an existing folder of this version's own. They do not survive a loss of power. */
  readonly directory: string;
  /** Called with the number of bytes that arrived since the last call. */
  readonly onBytes: (bytes: number) => void;
  /**
   * Called before each page is written, with the number of bytes that the pages in the folder have with it. What it throws
   * ends the call.
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
      /** Paths of the spooled pages in order; each holds one response body as the service sent it. */
      readonly pages: readonly string[];
      /** Of all pages. */
      readonly bytes: number;
    };

export interface DownloadRequest {
  readonly entry: ManifestEntry;
  /** An existing folder. What is there of a file is used only where a digest or an entity tag says that it is the same. */
  readonly directory: string;
  /** Reads the manifest again, for fresh URLs; null where it no longer lists the dataset. */
  readonly refresh: () => Promise<ManifestEntry | null>;
  /** Called with the number of bytes that arrived since the last call. */
  readonly onBytes: (bytes: number) => void;
}

export type Download =
  | {
      readonly kind: 'complete';
      readonly files: readonly DownloadedFile[];
      /** Whether the entry stated the digests of all files, or some were computed while the files arrived. */
      readonly digestKind: 'stated' | 'computed';
      /** Digests or entity tags say that all files are of one content; else it may have been replaced between two of them. */
      readonly isSurelyOneContent: boolean;
    }
  /**
   * The manifest named other content meanwhile, or the content was replaced under its links; files that both share stay in
   * the folder. Null: the dataset is gone.
   */
  | { readonly kind: 'superseded'; readonly entry: ManifestEntry | null };

export interface DownloadedFile {
  readonly path: string;
  /** What a person knows the file by: the last part of its URL's path, without query. */
  readonly name: string;
  readonly bytes: number;
  readonly sha256: string;
  /** What the manifest says of it. */
  readonly rowCount: number | null;
}
