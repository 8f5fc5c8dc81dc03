/** Two daemons on one database, each in a data directory of its own: the first works, the second stands by. */

import { expect } from 'vitest';
import { PASSWORD, statement } from '../../fixtures/postgres-server.ts';
import { countyFeed } from './county-feed.ts';
import { logged } from './logged.ts';
import { eventually } from './patience.ts';
import { type Program, program, type Running } from './program.ts';
import { ask } from './status-server.ts';

/** Short, so that tests see leases end. */
export const LEASE_MS = 5_000;

export interface TwoDaemonsOptions {
  /** By which the first reaches the database. */
  readonly firstAddress?: string;
  /** Of both. */
  readonly environment?: Readonly<Record<string, string>>;
}

export async function twoDaemons(
  address: string,
  { firstAddress = address, environment = {} }: TwoDaemonsOptions = {},
) {
  const made = await countyFeed({ kinds: ['permits'], rowsPerDataset: 30 });
  const installation = (url: string): Promise<Program> =>
    program({
      feed: made.feed,
      environment: {
        FEED_SYNC_DESTINATION_URL: url,
        FEED_SYNC_DESTINATION_LEASE: `${LEASE_MS / 1000}s`,
        FEED_SYNC_POLL_EVERY: '1s',
        ...environment,
      },
      secrets: [PASSWORD],
    });
  const firstInstalled = await installation(firstAddress);
  const first = firstInstalled.start('run');
  await logged(first, 'Loaded a snapshot.');
  await eventually(async () => expect((await ask(`${await urlOf(first)}/readyz`)).status).toBe(200));
  const installed = await installation(address);
  const second = installed.start('run');
  const standingBy = JSON.parse(await logged(second, 'Stands by: another instance works on the database.'));
  expect(standingBy.holder).toContain(`process ${first.pid} `);
  return { ...made, first, second, firstInstalled, installed };
}

export type TwoDaemons = Awaited<ReturnType<typeof twoDaemons>>;

/** The address of the status server. */
export async function urlOf(run: Running): Promise<string> {
  return (JSON.parse(await logged(run, 'The status server listens.')) as { readonly url: string }).url;
}

/** The versions that were committed, in order. */
export function committedVersions(address: string): ReturnType<typeof statement> {
  return statement(address, 'SELECT to_version FROM feed_sync.commits ORDER BY commit_number');
}
