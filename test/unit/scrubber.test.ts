/** The scrubs of the daemon: when they start, their stored progress, and the handling of damage, on a steered clock. */

import { describe, expect, it } from 'vitest';
import { StorageError } from '../../src/model/errors.ts';
import { dueScrub, NEVER_SCRUBBED, type ScrubbedSlice, type ScrubPosition } from '../../src/model/scrub.ts';
import { openAt } from '../support/checkpoint-files.ts';
import { smallDaemon } from '../support/small-daemon.ts';
import { smallWorld } from '../support/small-world.ts';
import { subscription } from '../support/sync-values.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const EVERY_MS = 30 * DAY_MS;
const TIMING = {
  poll: { kind: 'every', everyMs: DAY_MS },
  auditEveryMs: DAY_MS,
  scrubEveryMs: EVERY_MS,
} as const;

const AT_ROW_7 = { table: 'main.parcels', row: 7 };
const PART: ScrubbedSlice = { position: AT_ROW_7, isAtEnd: false, damage: null };
const END: ScrubbedSlice = { position: null, isAtEnd: true, damage: null };

/** A daemon whose mirror answers each slice with the next of these, and with the end after them. */
async function scrubbed(...slices: readonly ScrubbedSlice[]) {
  const world = await smallWorld('parcels');
  world.service.subscriptions = [subscription()];
  world.service.members.set('sub_1', ['parcels']);
  const seen = { from: [] as (ScrubPosition | null)[], suspected: 0 };
  const left = [...slices];
  const scrubbing = {
    async readSlice(from: ScrubPosition | null) {
      seen.from.push(from);
      return left.shift() ?? END;
    },
    suspect() {
      seen.suspected += 1;
    },
  };
  Object.assign(world.parts.destination, { scrubbing });
  return { world, seen };
}

describe('a scrub', () => {
  it('continues a scrub where it stopped, completes it once, and starts the next within the time', async () => {
    const { world, seen } = await scrubbed(PART, PART);
    const { daemon, pass } = smallDaemon(world, TIMING);
    await pass(3 * MINUTE_MS);
    expect(seen.from).toEqual([null, AT_ROW_7, AT_ROW_7]);
    const completedAt = world.checkpoint.scrub().completedAt;
    expect(completedAt).not.toBeNull();
    expect(daemon.state().scrub?.completedAt).toEqual(completedAt);
    await pass(26 * DAY_MS, 10 * MINUTE_MS);
    expect(seen.from).toHaveLength(3);
    await pass(2 * DAY_MS, 10 * MINUTE_MS);
    expect(seen.from).toEqual([null, AT_ROW_7, AT_ROW_7, null]);
  });

  it('continues a scrub after a restart, and does not repeat it', async () => {
    const { world, seen } = await scrubbed(PART);
    const first = smallDaemon(world, TIMING);
    await first.pass(MINUTE_MS / 2);
    first.daemon.stop();
    await first.ended;
    await smallDaemon(world, TIMING).pass(MINUTE_MS);
    expect(seen.from).toEqual([null, AT_ROW_7]);
    await smallDaemon(world, TIMING).pass(5 * MINUTE_MS);
    expect(seen.from).toHaveLength(2);
  });

  it('reads nothing while a dataset is worked on', async () => {
    const { world, seen } = await scrubbed();
    const loaded = Promise.withResolvers<void>();
    const { destination } = world.parts;
    const validate = destination.validate.bind(destination);
    Object.assign(destination, {
      async validate(job: Parameters<typeof validate>[0]) {
        await loaded.promise;
        return validate(job);
      },
    });
    const { daemon, clock } = smallDaemon(world, TIMING);
    for (let turns = 0; turns < 400; turns += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      clock.pass(500);
    }
    expect(daemon.summary().underWay).toBe(1);
    expect(seen.from).toEqual([]);
    loaded.resolve();
  });

  it('has a damaged table found and repaired, and goes on', async () => {
    const damage = { tableName: 'main.parcels', endsProcess: false, why: 'a checksum differs' };
    const { world, seen } = await scrubbed({ ...PART, damage });
    let searches = 0;
    Object.assign(world.parts.destination, {
      async findDamage() {
        searches += 1;
        return [];
      },
    });
    const { pass } = smallDaemon(world, TIMING);
    await pass(3 * MINUTE_MS);
    expect(searches).toBe(1);
    expect(seen).toEqual({ from: [null, AT_ROW_7], suspected: 0 });
    expect(world.logged).toContainEqual([
      'error',
      { table: 'main.parcels', why: 'a checksum differs' },
      'A scrub found the mirror damaged.',
    ]);
  });

  it('has the stores opened again after damage that ends processes', async () => {
    const damage = { tableName: 'main.parcels', endsProcess: true, why: 'SIGSEGV' };
    const { world, seen } = await scrubbed({ ...PART, damage });
    const { pass, ended } = smallDaemon(world, TIMING);
    await pass(MINUTE_MS);
    expect(await ended).toEqual({ kind: 'suspect' });
    expect(seen.suspected).toBe(1);
    expect(world.checkpoint.scrub().position).toEqual(AT_ROW_7);
  });

  it('completes no scrub on a damaged checkpoint, and has the stores opened again', async () => {
    const { world, seen } = await scrubbed();
    Object.assign(world.parts.checkpoint, { damage: () => 'row 3 missing from index' });
    const { pass, ended } = smallDaemon(world, TIMING);
    await pass(MINUTE_MS);
    expect(await ended).toEqual({ kind: 'suspect' });
    expect(seen.suspected).toBe(0);
    expect(world.checkpoint.scrub().completedAt).toBeNull();
  });
});

it('keeps the daemon running where the checkpoint can be neither read nor checked', async () => {
  const { world } = await scrubbed();
  const { daemon, pass } = smallDaemon(world, TIMING);
  const { checkpoint } = world.parts;
  const whole = { suspensions: checkpoint.suspensions, damage: checkpoint.damage };
  const fail = (): never => {
    throw new StorageError('The checkpoint cannot be opened.');
  };
  Object.assign(checkpoint, { suspensions: fail, damage: fail });
  await pass(MINUTE_MS);
  Object.assign(checkpoint, whole);
  expect(daemon.state().incidents.map(({ of }) => of)).toContain('loop');
  await pass(2 * MINUTE_MS);
  expect(daemon.state().incidents).toEqual([]);
  expect(world.checkpoint.scrub().completedAt).not.toBeNull();
});

it('checks the checkpoint once for a lasting error, again after ten minutes, and at once for another one', async () => {
  const { world } = await scrubbed();
  const { pass } = smallDaemon(world);
  const { checkpoint } = world.parts;
  const { suspensions } = checkpoint;
  let checks = 0;
  const fail = (): never => {
    throw new StorageError('The disk is full.');
  };
  Object.assign(checkpoint, {
    damage: () => {
      checks += 1;
      return null;
    },
  });
  await pass(MINUTE_MS);
  Object.assign(checkpoint, { suspensions: fail });
  await pass(9 * MINUTE_MS);
  expect(checks).toBe(1);
  await pass(2 * MINUTE_MS);
  expect(checks).toBe(2);
  Object.assign(checkpoint, { suspensions });
  await pass(MINUTE_MS);
  Object.assign(checkpoint, { suspensions: fail });
  await pass(MINUTE_MS);
  expect(checks).toBe(3);
});

it('has the stores opened again, once, for damage that another process found', async () => {
  const { world, seen } = await scrubbed();
  const { pass, ended } = smallDaemon(world, TIMING);
  await pass(MINUTE_MS);
  const beside = await openAt(world.checkpointPath);
  beside.keepScrub({ ...beside.scrub(), isExaminationAsked: true });
  await pass(MINUTE_MS);
  expect(await ended).toEqual({ kind: 'suspect' });
  expect(seen.suspected).toBe(1);
  expect(world.checkpoint.scrub()).toMatchObject({ isExaminationAsked: false });
});

describe('dueScrub', () => {
  const at = (days: number): Date => new Date(days * DAY_MS);
  const over = { ...NEVER_SCRUBBED, beganAt: at(10), completedAt: at(11) };

  it('counts the time of a scrub from the start of the one before', () => {
    expect(dueScrub(over, EVERY_MS, at(36.9))).toBeNull();
    expect(dueScrub(over, EVERY_MS, at(37))).toMatchObject({ beganAt: at(37), position: null });
  });

  it('starts a scrub where the clock was set back before the last one', () => {
    expect(dueScrub(over, EVERY_MS, at(9))).toMatchObject({ beganAt: at(9) });
  });

  it('starts no scrub while one is under way, however long that takes', () => {
    const underWay = { ...over, beganAt: at(40), position: AT_ROW_7 };
    expect(dueScrub(underWay, EVERY_MS, at(400))).toEqual(underWay);
  });
});
