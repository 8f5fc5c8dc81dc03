/** Where an installation of a test has its files. */

import { join } from 'node:path';

export interface InstallationPaths {
  /** Contains the data directory and whatever else belongs to the installation. */
  readonly home: string;
  readonly dataDirectory: string;
  readonly mirrorPath: string;
  readonly checkpointPath: string;
}

/** The places of an installation whose data directory has its ordinary name, below its home. */
export function installationPaths(home: string): InstallationPaths {
  const dataDirectory = join(home, 'data');
  return {
    home,
    dataDirectory,
    mirrorPath: join(dataDirectory, 'mirror.duckdb'),
    checkpointPath: join(dataDirectory, 'checkpoint.sqlite'),
  };
}
