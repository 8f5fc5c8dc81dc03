/** Undo logs and what froze with them have checksums in each destination: what was altered by hand does not pass for the past (F70). */

import { describe, expect, it } from 'vitest';
import {
  type DestinationKind,
  type DestinationWorld,
  destinationKinds,
} from '../support/destination-kinds.ts';
import { equalPast, makePastOfEveryKind, statesOf } from '../support/past-of-every-kind.ts';
import { ALL_HISTORY } from '../support/people.ts';

async function everyKind(kind: DestinationKind): Promise<DestinationWorld> {
  const world = await kind.open(ALL_HISTORY);
  await makePastOfEveryKind(world);
  return world;
}

async function compared(world: DestinationWorld) {
  const reader = await world.reader();
  try {
    return statesOf(await reader.comparePast({ datasetIds: null, skipped: 0 }, () => false));
  } finally {
    await reader.close();
  }
}

const renewed = (world: DestinationWorld) =>
  world.destination.renewChecksums({ datasetIds: ['parcels', 'roads'], unreadable: [] });

async function stateAfter(world: DestinationWorld, commit: number): Promise<readonly unknown[]> {
  const reader = await world.reader();
  try {
    const { rows } = await reader.query(`SELECT * FROM ${world.historic('parcels_as_of_commit')}(${commit})`);
    const texts: string[][] = [];
    for await (const row of rows) texts.push(row.map(String));
    return texts;
  } finally {
    await reader.close();
  }
}

describe.each(destinationKinds())('the destination $name', (kind) => {
  it('F70 finds the past equal to what commits, freezing and retirement have written', async () => {
    const world = await everyKind(kind);
    expect(await compared(world)).toEqual(equalPast(world));
    expect(await renewed(world)).toEqual({ stored: [], closed: [], kept: [] });
  });

  it('F70 finds a value that was altered in a log, and closes the log', async () => {
    const world = await everyKind(kind);
    await world.byHand(`UPDATE ${world.historic('parcels')} SET owner = 'Eve' WHERE owner = 'Ann'`);
    expect(await compared(world)).toEqual(
      equalPast(world).map(([name, state]) => [
        name,
        name === `log ${world.historic('parcels')}` ? 'altered' : state,
      ]),
    );
    expect(await renewed(world)).toEqual({ stored: [], closed: [world.historic('parcels')], kept: [] });
    await expect(stateAfter(world, 3)).rejects.toThrow('the log was dropped or altered by hand');
    expect(await stateAfter(world, 4)).toEqual([['1', 'Bob']]);
    expect(await compared(world)).toEqual(equalPast(world));
  });

  it('F70 finds a frozen table that was altered, and drops its log, which leads nowhere', async () => {
    const world = await everyKind(kind);
    await world.byHand(`UPDATE ${world.historic('parcels__3')} SET name = 'x'`);
    expect(await renewed(world)).toEqual({
      stored: [],
      closed: [world.historic('parcels__3_log')],
      kept: [],
    });
    expect(await compared(world)).toEqual(equalPast(world).filter(([name]) => !name?.includes('parcels__3')));
    expect(await stateAfter(world, 3)).toEqual([['1', 'Ann']]);
  });

  it('F70 computes checksums of another version of the hash again, once', async () => {
    const world = await everyKind(kind);
    const columns = ['checksum_version', 'table_checksum_version'].map((name) => `${name} = 'another'`);
    await world.byHand(`UPDATE feed_sync.history_logs SET ${columns.join(', ')}`);
    expect((await compared(world)).filter(([, state]) => state === 'unrecorded')).toHaveLength(4);
    expect((await renewed(world)).stored).toEqual(
      equalPast(world).flatMap(([name = '']) => (name.startsWith('archived') ? [] : name.replace(/.* /, ''))),
    );
    expect(await compared(world)).toEqual(equalPast(world));
    expect(await renewed(world)).toEqual({ stored: [], closed: [], kept: [] });
  });
});
