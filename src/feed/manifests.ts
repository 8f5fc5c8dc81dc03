/**
 * Reads manifests at the path that discovery settled on. A 404 at a guessed path may mean that the guess is wrong, so the
 * service's description is read again before anything is suspended.
 */

import type { ContractName } from '../model/contract.ts';
import { ConfigurationError, RefusalError, ServiceUnavailableError } from '../model/errors.ts';
import { type EventId, earlierEvent } from '../model/event.ts';
import { type Discovery, isGuess } from './discovery.ts';
import type { Feed } from './feed.ts';
import type { Api } from './http/api.ts';
import { readPages } from './lists.ts';
import { readManifest, readManifestEntry } from './operations.ts';
import type { ManifestPage } from './wire/records.ts';

const NOT_FOUND = 404;

type Manifests = Pick<Feed, 'manifestShape' | 'manifest' | 'manifestEntry'>;

/** Creates the reading of manifests, which throws a ConfigurationError when no source names the path of the manifest. */
export function createManifests(api: Api, discovery: Discovery): Manifests {
  /** Paths that have answered before. A 404 there concerns the subscription or the dataset. */
  const proven = new Set<string>();

  async function readAt<T>(
    read: (template: string, finalStatuses: readonly number[]) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const path = discovery.contract().manifestPath;
    const isDoubtful = isGuess(path) && !proven.has(path.value);
    try {
      const result = await read(path.value, isDoubtful ? [NOT_FOUND] : []);
      proven.add(path.value);
      return result;
    } catch (error) {
      const isUnknown = error instanceof RefusalError && error.refusal.status === NOT_FOUND;
      if (!isUnknown || !isDoubtful) throw error;
      const { manifestPath } = await discovery.discover(signal);
      return read(betterPath(path, manifestPath, error), []);
    }
  }

  return {
    manifestShape: () => shapeOf(discovery.contract().manifestPath.value),
    manifest: (subscriptionId, signal) =>
      readAt(async (template, finalAtFirst) => {
        const operation = readManifest(template, subscriptionId);
        const { pages, readAt } = await readPages(api, operation, signal, { finalAtFirst });
        const datasets = pages.flatMap((page) => page.datasets);
        return { subscriptionId, lastEventId: reflectedByAll(pages), datasets, readAt };
      }, signal),
    manifestEntry: (datasetId, signal) =>
      readAt(async (template, finalStatuses) => {
        const operation = { ...readManifestEntry(template, datasetId), finalStatuses };
        const { value: entry, readAt } = await api.call(operation, signal);
        return { entry, readAt };
      }, signal),
  };
}

/** The manifest may change while its pages are read, so its watermark is the lowest of all pages. */
function reflectedByAll(pages: readonly ManifestPage[]): EventId | null {
  return pages
    .map(({ lastEventId }) => lastEventId)
    .reduce((left, right) => (left === null || right === null ? null : earlierEvent(left, right)));
}

/** Returns the path to try instead of the refused one. @throws the error to report when no better path is known. */
function betterPath(refused: ContractName, settled: ContractName, error: RefusalError): string {
  if (settled.source === 'default') throw unknownPath(settled.value, error);
  if (isGuess(settled)) throw error;
  if (shapeOf(settled.value) !== shapeOf(refused.value)) throw otherShape();
  return settled.value;
}

function shapeOf(template: string): 'subscription' | 'dataset' {
  return template.includes('{datasetId}') ? 'dataset' : 'subscription';
}

function unknownPath(path: string, cause: RefusalError): ConfigurationError {
  return new ConfigurationError(
    `manifest path unknown, set service.contract.manifestPath: the service has none at ${path}, and its description names none.`,
    { hint: 'Ask the service where a subscription or a dataset has its manifest.', cause },
  );
}

function otherShape(): ServiceUnavailableError {
  return new ServiceUnavailableError(
    'The service describes its manifest in another shape than was assumed without its description.',
    { hint: 'The next run uses the description.' },
  );
}
