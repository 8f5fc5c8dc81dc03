/** Published versions of a dataset (the service's interface, Resources: Dataset version record). */

export interface Counts {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

export interface Version {
  readonly datasetId: string;
  readonly version: number;
  /** Null where the service did not say; such a version cannot be walked to, only loaded. */
  readonly previousVersion: number | null;
  readonly schemaVersion: string | null;
  /** Rows of the whole dataset at this version. Null where the service did not say; it is then not checked. */
  readonly rowCount: number | null;
  readonly counts: Counts | null;
  readonly resyncRequired: boolean;
  readonly publishedAt: Date | null;
}
