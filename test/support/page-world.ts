/** Cases that the status page shows, of any number of datasets: all well, one suspended, a first load, an outage. */

import type { PageStores } from '../../src/daemon/server/page/overview.ts';
import type { DaemonState, DatasetActivity } from '../../src/daemon/state.ts';
import type { RecordedUnion } from '../../src/destination/catalog/unions.ts';
import { reportOf } from '../../src/reporting/report.ts';
import { NO_CHECKPOINT } from '../../src/reporting/stores.ts';
import { counters, daemonState, datasetState, subscriptionState } from './daemon-state.ts';
import { announcing, desired, refusal, table } from './sync-values.ts';

export type ShownCase = 'all well' | 'one suspended' | 'first load' | 'outage';

const KINDS = ['parcels', 'permits', 'zoning', 'ordinances'];
const COUNTIES = ['us-az-cedarville', 'us-tx-brazos-bend', 'us-ca-monte-alto', 'us-nm-las-lomas'];

/** `us-az-cedarville-0001-parcels`. */
export function pageDatasetId(index: number): string {
  const county = COUNTIES[index % COUNTIES.length];
  return `${county}-${String(index).padStart(4, '0')}-${KINDS[index % KINDS.length]}`;
}

const MESSAGE = 'The county has withdrawn its licence for this dataset. Ask it for a new one.';

interface PageWorldOptions {
  /** Of the refusal. */
  readonly message?: string;
  /** The share that a first load has loaded. */
  readonly loadedShare?: number;
  readonly unions?: readonly RecordedUnion[];
}

export function pageWorld(
  shownCase: ShownCase,
  count: number,
  now: Date,
  { message = MESSAGE, loadedShare = 0.41, unions = [] }: PageWorldOptions = {},
) {
  const ago = (seconds: number): Date => new Date(now.getTime() - seconds * 1_000);
  const ids = Array.from({ length: count }, (_, index) => pageDatasetId(index)).sort();
  const loaded = shownCase === 'first load' ? Math.floor(count * loadedShare) : count;
  const [refused = ''] = ids;
  const isLoaded = (index: number): boolean => index < loaded;
  const suspensions =
    shownCase === 'one suspended'
      ? [
          {
            refusal: refusal(
              { kind: 'dataset', datasetId: refused },
              {
                operation: 'read changes',
                code: 'not_distributable',
                message,
              },
            ).refusal,
            suspendedAt: ago(5_400),
            keyHash: '',
          },
        ]
      : [];
  /** A newer version of the refused dataset is out. */
  const newer = (datasetId: string): number => (suspensions.length > 0 && datasetId === refused ? 1 : 0);
  const desiredOf = (datasetId: string, index: number) =>
    desired({
      datasetId,
      ...announcing(isLoaded(index) ? 12 - (index % 5) + newer(datasetId) : 1, 'sub_1'),
    });
  const report: PageStores['report'] = reportOf({
    mirror: {
      service: null,
      progress: null,
      freeBytes: null,
      bytes: null,
      pastLogs: null,
      unions,
      datasets: new Map(
        ids.slice(0, loaded).map((datasetId, index) => [
          datasetId,
          table(12 - (index % 5), {
            datasetId,
            rowCount: 1_000 + ((index * 7_919) % 90_000),
            publishedAt: ago(3_600 * (1 + (index % 70))),
            appliedAt: ago(3_500 * (1 + (index % 70))),
          }),
        ]),
      ),
    } as never,
    checkpoint: {
      ...NO_CHECKPOINT,
      desiredStates: new Map(ids.map((id, index) => [id, desiredOf(id, index)])),
      suspensions,
      failures: new Map(),
    },
    choices: { include: ['*'], exclude: [] },
    keyHash: null,
  });
  const activity = (datasetId: string, index: number): DatasetActivity =>
    datasetState(datasetId, {
      behindSince: isLoaded(index) ? null : ago(600),
      version: isLoaded(index) ? 12 - (index % 5) : null,
      work:
        index >= loaded && index < loaded + 4
          ? { step: 'loading version 1', since: ago(8), bytes: 2_400_000 * (index - loaded + 1) }
          : null,
    });
  const isOut = shownCase === 'outage';
  const state: DaemonState = daemonState({
    now,
    startedAt: ago(shownCase === 'first load' ? 640 : 260_000),
    phase: shownCase === 'first load' ? 'starting' : 'following',
    caughtUpAt: shownCase === 'first load' ? null : ago(250_000),
    subscriptions: new Map([
      [
        'sub_1',
        subscriptionState('sub_1', {
          name: 'Southwest counties',
          condition: isOut ? 'failing' : shownCase === 'first load' ? 'behind' : 'idle',
          lastGoodPollAt: ago(isOut ? 2_700 : 12),
          cursorExpiresAt: ago(-77 * 86_400),
        }),
      ],
    ]),
    datasets: new Map(ids.map((id, index) => [id, activity(id, index)])),
    suspensions,
    incidents: isOut
      ? [
          {
            of: 'service',
            error: 'service_unavailable',
            message: 'The service cannot be reached: connection refused (ECONNREFUSED).',
            hint: null,
            since: ago(2_640),
            attempts: 31,
            isStall: true,
          },
        ]
      : [],
    counters: counters({
      downloadedBytes: shownCase === 'first load' ? 11_300_000_000 * loadedShare : 18_400_000,
    }),
  });
  const syncRuns: PageStores['syncRuns'] = ids.slice(0, Math.min(8, loaded)).map((datasetId, index) => {
    const isFirst = shownCase === 'first load';
    return {
      at: ago(isFirst ? 2 + index : 900 + index * 1_300),
      kind: isFirst ? 'loaded' : 'applied',
      datasetId,
      detail: isFirst
        ? `version 1, ${(1_000 + index * 731).toLocaleString('en-US')} rows`
        : `version ${11 - (index % 5)} to ${12 - (index % 5)}: ${15 + index} added, ${62 * (index + 1)} changed, ${index * 3} removed`,
    };
  });
  return { state, stores: { report, syncRuns } };
}
