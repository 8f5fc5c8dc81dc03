/** Scenarios of gates: content that waits for an operator, is evicted, and is over once a later version passes. */

import type { DatasetVersion } from '../../../fixtures/feed/model.ts';
import type { Content, Row } from '../../../fixtures/source/content.ts';
import { difference } from '../../../fixtures/source/diff.ts';
import type { CountyFeed } from '../../support/county-feed.ts';
import { once } from '../../support/expect-mirrored.ts';
import { everythingPublished } from '../../support/published.ts';
import type { Act, Scenario, Stage } from '../scenario.ts';

const NO_REMOVALS = { FEED_SYNC_GATES_REMOVED_ROWS: '0' };

export const GATES: readonly Scenario[] = [
  {
    name: 'wait',
    summary: 'changes and a snapshot that remove rows wait for approval',
    environment: NO_REMOVALS,
    killedAt: 'its own names',
    validate: withoutApproval,
  },
  {
    name: 'evict',
    summary: 'content that waits, and no space for it',
    environment: { ...NO_REMOVALS, FEED_SYNC_GATES_KEEP_CANDIDATES: '0MB' },
    killedAt: 'its own names',
    validate: withoutApproval,
  },
  {
    name: 'correct',
    summary: 'a later version passes the gate, and what waited is over',
    environment: NO_REMOVALS,
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      const before = new Map(county.datasetIds.map((id) => [id, county.contentOf(id).rows()]));
      for (const datasetId of county.datasetIds) removeRow(county, datasetId);
      await once(installed, 77);
      for (const [datasetId, rows] of before) publishRows(county, datasetId, [...rows]);
      return {};
    },
  },
  {
    name: 'approve',
    summary: '`approve` of changes that wait',
    environment: NO_REMOVALS,
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      const [datasetId = ''] = county.datasetIds;
      removeRow(county, datasetId);
      await once(installed, 77);
      const listed = JSON.parse((await installed.run('approve', '--json')).stdout);
      const { version, content } = listed.datasets[0];
      return {
        words: ['approve', datasetId, '--version', String(version), '--content', content],
        // What is committed waits no more.
        again: (kill) => (isCommittedAfter(kill) ? { exitCode: 64 } : {}),
      };
    },
  },
];

/** Every dataset loses a row, which nobody approves: the mirror keeps the version before. */
async function withoutApproval({ county, installed }: Stage): Promise<Act> {
  await once(installed);
  const at = versionsOf(county);
  for (const datasetId of county.datasetIds) removeRow(county, datasetId);
  return { exitCode: 77, expected: () => everythingPublished(county.feed, { at }) };
}

/** The points at which the approved content is committed already. A pending request is performed with that of the next command. */
function isCommittedAfter(kill: string): boolean {
  return (
    /settle-request|remove-candidate|discard-candidate/.test(kill) ||
    (kill.startsWith('after destination.commit') && !kill.endsWith(' 1'))
  );
}

function versionsOf({ feed }: CountyFeed): Readonly<Record<string, DatasetVersion>> {
  return Object.fromEntries(
    everythingPublished(feed).datasets.map(({ datasetId, version }) => [datasetId, version]),
  );
}

function removeRow(county: CountyFeed, datasetId: string): void {
  publishRows(county, datasetId, [...county.contentOf(datasetId).rows()].slice(1));
}

/** The changes of every second dataset are not recorded, so that its snapshot is loaded. */
function publishRows(county: CountyFeed, datasetId: string, rows: readonly Row[]): void {
  const { schema, rows: before } = county.contentOf(datasetId);
  const isLoaded = county.datasetIds.indexOf(datasetId) % 2 === 1;
  const changes = isLoaded ? null : difference(schema, before(), rows);
  const content: Content = { schema, rowCount: rows.length, rows: () => rows, changes };
  county.publishNext(datasetId, content);
}
