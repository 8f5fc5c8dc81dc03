/**
 * That the files of a snapshot are of one content. Where the entry states the digest of each, digests say so. Else the content
 * may have been replaced between two of them: once all have arrived, the service is asked about each by its entity tag.
 * What has not changed since it arrived was there together with the others when the last one had arrived.
 *
 * Files without a digest and without a tag are taken as they came, as long as all links are from one reading of the
 * manifest: nothing more can be known of them.
 */

import { formatCount } from '../../lib/units.ts';
import { ServiceUnavailableError } from '../../model/errors.ts';
import { shown } from '../shown.ts';
import type { Fetched } from './fetch-file.ts';
import type { FileJob } from './file-job.ts';
import type { FreshLinks } from './fresh-links.ts';

/** How often all files are asked about because links expired meanwhile. */
const MAX_ROUNDS = 4;

/** By the path of the file. */
export type FetchedFiles = ReadonlyMap<string, Fetched>;

/**
 * `jobs` are distinct, and `fetched` what has arrived of them; `fetchAgain` asks for files that are there.
 * @throws Superseded where they are not, or where nothing says so after the manifest was read again
 */
export async function refuseMixture(
  jobs: readonly FileJob[],
  fetched: FetchedFiles,
  links: FreshLinks,
  fetchAgain: (jobs: readonly FileJob[]) => Promise<FetchedFiles>,
): Promise<void> {
  const [first] = jobs;
  if (first === undefined || jobs.length === 1 || first.belongsByDigest) return;
  const isTagged = ({ path }: FileJob): boolean => (fetched.get(path)?.etag ?? null) !== null;
  const tagged = jobs.filter(isTagged);
  const untagged = jobs.filter((job) => job.file.sha256 === null && !isTagged(job));
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const { renewals } = links;
    if (untagged.some(({ path }) => fetched.get(path)?.renewals !== renewals)) {
      throw links.supersededByRenewal();
    }
    const again = await fetchAgain(tagged);
    if ([...again.values()].some(({ isUnchanged }) => !isUnchanged)) {
      throw await links.supersededByReplacement();
    }
    if (links.renewals === renewals) return;
  }
  throw linksTooShort(first, jobs.length);
}

function linksTooShort({ datasetId, version }: FileJob, files: number): ServiceUnavailableError {
  const snapshot = `the ${formatCount(files)} files of dataset ${shown(datasetId)}, version ${version}`;
  return new ServiceUnavailableError(
    `Could not tell whether ${snapshot} are of one content: their links expire before all of them were asked about.`,
    {
      hint: 'They are asked about again later. If it stays so, ask the service to state the digests of the files.',
    },
  );
}
