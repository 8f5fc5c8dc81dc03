/** The names that the service's interface leaves open, and the source of each. */

export type ContractSource = 'config' | 'openapi' | 'remembered' | 'default';

export interface ContractName {
  readonly value: string;
  readonly source: ContractSource;
}

export interface Contract {
  /** A path template with `{subscriptionId}` or `{datasetId}`. */
  readonly manifestPath: ContractName;
  /** The query parameter of the versions list that asks for versions newer than a given one; null: it is left out. */
  readonly newerThanParameter: ContractName | null;
}

/** The names learned from the service's description and kept for when it cannot be had. */
export interface RememberedContract {
  readonly manifestPath: string | null;
  readonly newerThanParameter: string | null;
}
