/**
 * The versions of a dataset that are newer than a given one. The service is asked for just those where we know how,
 * and never trusted to have understood: the list is filtered here too, and read no further than needed.
 */

import { RefusalError } from '../model/errors.ts';
import type { Version } from '../model/version.ts';
import { type Discovery, isGuess } from './discovery.ts';
import type { VersionList } from './feed.ts';
import type { Api } from './http/api.ts';
import { MAX_JSON_DEPTH } from './limits.ts';
import { listVersions } from './operations.ts';
import { LIST_LIMIT, readAtOf, readPages } from './paging.ts';
import { decodeVersions, type ListPage } from './wire/records.ts';

/** What a service answers to a parameter that it does not know. */
const UNKNOWN_PARAMETER_STATUS = 400;

/** GET /v1/datasets/{datasetId}/versions: newest first, as the service lists them. */
export async function readVersions(
  api: Api,
  discovery: Discovery,
  datasetId: string,
  newerThan: number | null,
  signal: AbortSignal,
): Promise<VersionList> {
  const read = () => readNewer(api, discovery, datasetId, newerThan, signal);
  const parameter = discovery.contract().newerThanParameter;
  try {
    return await read();
  } catch (error) {
    const isRefused = error instanceof RefusalError && error.refusal.status === UNKNOWN_PARAMETER_STATUS;
    if (!isRefused || newerThan === null || parameter === null || !isGuess(parameter)) throw error;
  }
  const { newerThanParameter } = await discovery.discover(signal);
  if (newerThanParameter !== null && isGuess(newerThanParameter)) discovery.leaveOutNewerThanParameter();
  return read();
}

async function readNewer(
  api: Api,
  discovery: Discovery,
  datasetId: string,
  newerThan: number | null,
  signal: AbortSignal,
): Promise<VersionList> {
  const operation = listVersions(datasetId);
  const parameter = discovery.contract().newerThanParameter;
  // The interface gives the parameter a minimum of 0; below that it would filter nothing.
  const filter =
    parameter === null || newerThan === null || newerThan < 0 ? {} : { [parameter.value]: newerThan };
  const isNewer = ({ version }: Version): boolean => newerThan === null || version > newerThan;
  const pages = await readPages<ListPage<Version> & { readonly readAt: Date }>({
    title: operation.title,
    read: (cursor) =>
      api.call(
        {
          operation,
          query: { ...filter, limit: LIST_LIMIT, cursor },
          maxDepth: MAX_JSON_DEPTH,
          finalStatuses: parameter !== null && isGuess(parameter) ? [UNKNOWN_PARAMETER_STATUS] : [],
          decode: ({ json, readAt }) => ({ ...decodeVersions(json, datasetId, operation.title), readAt }),
        },
        signal,
      ),
    isEnough: ({ items }) => !items.every(isNewer),
  });
  const versions = pages.flatMap(({ items }) => items).filter(isNewer);
  return { versions, readAt: readAtOf(pages) };
}
