/**
 * F58: bits of the checkpoint that flipped, and pages that lie in each other's place. Whoever reads the file names it as damaged, and
 * nothing else goes wrong.
 */

import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import type { CheckpointReader } from '../../src/checkpoint/checkpoint.ts';
import type { RequestAnswer } from '../../src/checkpoint/requests.ts';
import { openCheckpointCopy, openCheckpointReader } from '../../src/checkpoint/sqlite/open.ts';
import { silentLog } from '../../src/lib/log.ts';
import { StorageError } from '../../src/model/errors.ts';
import { nextNotification } from '../../src/model/notification.ts';
import { restore } from '../support/checkpoint-dump.ts';
import { NOON, NOON_CLOCK, openAt, temporaryPath } from '../support/checkpoint-files.ts';
import { candidate } from '../support/sync-values.ts';

const FILLED = new URL('checkpoint-formats/format-14.sql', import.meta.url);
const PAGE_BYTES = 4_096;

const ANSWERS: Readonly<Record<string, RequestAnswer | null>> = {
  waiting: null,
  done: { kind: 'done', text: 'It is at version 7.' },
  refused: { kind: 'refused', error: 'command_refused', message: 'There is no version 7.', hint: null },
};

interface Damage {
  readonly name: string;
  readonly bytes: Buffer;
}

/** A checkpoint with rows in every table. */
async function filled() {
  const path = temporaryPath('checkpoint.sqlite');
  restore(path, readFileSync(FILLED, 'utf8'));
  const checkpoint = await openAt(path);
  // The one of the dump is of a version that wrote no digest.
  checkpoint.keepCandidate(candidate());
  for (const [requestId, answer] of Object.entries(ANSWERS)) {
    await checkpoint.requests.ask(
      { requestId, datasetId: 'd', command: 'rollback', parameters: { to: 7 } },
      NOON,
    );
    if (answer !== null) await checkpoint.requests.answer(requestId, answer);
  }
  checkpoint.close();
  const lay = ({ bytes }: Damage): void => {
    for (const end of ['-wal', '-shm']) rmSync(`${path}${end}`, { force: true });
    writeFileSync(path, bytes);
  };
  return { path, lay };
}

/** The first page of every table in the place of that of every other one. */
function* misplacedPages(path: string): Generator<Damage> {
  const database = new Database(path);
  const tables = database
    .prepare<[], { name: string; page: number }>(
      'SELECT name, rootpage AS page FROM sqlite_schema WHERE rootpage > 0',
    )
    .all();
  database.close();
  const sound = readFileSync(path);
  for (const to of tables) {
    for (const from of tables.filter((each) => each !== to)) {
      const bytes = Buffer.from(sound);
      sound.copy(bytes, (to.page - 1) * PAGE_BYTES, (from.page - 1) * PAGE_BYTES, from.page * PAGE_BYTES);
      yield { name: `${from.name} in the place of ${to.name}`, bytes };
    }
  }
}

/** The fields that say which program wrote the file, in which format. Any value may be that of another one. */
const IDENTITY = { first: 60, last: 71 };

/** A flipped bit in every `each`th byte that is not 0, but for those of the identity. Each bit of a byte has its turn. */
function* flippedBits(path: string, each: number): Generator<Damage> {
  const sound = readFileSync(path);
  for (let at = 0, used = 0; at < sound.length; at += 1) {
    const byte = sound[at] ?? 0;
    if (byte === 0 || (at >= IDENTITY.first && at <= IDENTITY.last)) continue;
    used += 1;
    if (used % each !== 0) continue;
    const bytes = Buffer.from(sound);
    bytes[at] = byte ^ (1 << ((used / each) % 8));
    yield { name: `byte ${at} of the file`, bytes };
  }
}

function readAll(reader: CheckpointReader | null): void {
  if (reader === null) throw new Error('there is no checkpoint');
  reader.rememberedContract();
  reader.followed();
  reader.polls();
  for (const datasetId of reader.desiredStates().keys()) reader.desired(datasetId);
  reader.absences();
  reader.mentions();
  reader.forgotten();
  reader.suspensions();
  for (const { datasetId, judged, since } of reader.candidates()) {
    expect([typeof datasetId, typeof judged.digest, since.getTime()]).toEqual([
      'string',
      'string',
      expect.any(Number),
    ]);
  }
  reader.failures();
  reader.webhooks();
  reader.newestDelivery();
  reader.hook();
  nextNotification(reader.notificationLedger(), [], NOON, true);
  reader.scrub();
  reader.recentSyncRuns(100);
}

/** What `use` throws but for a damaged file, with the damage. */
async function otherErrors(
  use: (path: string) => void,
  damagesOf: (path: string) => Iterable<Damage> = misplacedPages,
): Promise<readonly string[]> {
  const { path, lay } = await filled();
  const damages = [...damagesOf(path)];
  expect(damages.length).toBeGreaterThan(300);
  return damages.flatMap((damage) => {
    lay(damage);
    try {
      use(path);
      return [];
    } catch (error) {
      const isNamed = error instanceof StorageError && error.message.includes('is damaged: ');
      return isNamed ? [] : [`${damage.name}: ${error}`];
    }
  });
}

function readFrom(path: string): void {
  const reader = openCheckpointReader({ path, uid: null });
  try {
    readAll(reader);
  } finally {
    reader?.close();
  }
}

function copyFrom(path: string): void {
  const copy = openCheckpointCopy({ path, uid: null, clock: NOON_CLOCK, log: silentLog });
  try {
    readAll(copy);
  } finally {
    copy.close();
  }
}

it('F58 a reader takes any page of a table in the place of another one for damage, or for rows', async () => {
  expect(await otherErrors(readFrom)).toEqual([]);
});

it('F58 a copy in memory of a file with such a page is empty, or contains what can be read', async () => {
  expect(await otherErrors(copyFrom)).toEqual([]);
});

it('F58 a checkpoint with such a page is quarantined, or read', async () => {
  const { path, lay } = await filled();
  const isQuarantined: boolean[] = [];
  for (const damage of [...misplacedPages(path)].filter((_, index) => index % 7 === 0)) {
    lay(damage);
    const checkpoint = await openAt(path);
    readAll(checkpoint);
    checkpoint.close();
    const kept = readdirSync(dirname(path)).filter((name) => name.includes('.corrupt-'));
    isQuarantined.push(kept.length > 0);
    for (const name of [basename(path), ...kept]) rmSync(join(dirname(path), name));
  }
  expect(new Set(isQuarantined)).toEqual(new Set([true, false]));
});

it('F58 a reader takes any flipped bit for damage, or for another value of its column', async () => {
  expect(await otherErrors(readFrom, (path) => flippedBits(path, 23))).toEqual([]);
});

it('F58 a copy in memory of a file with a flipped bit is empty, or contains what can be read', async () => {
  expect(await otherErrors(copyFrom, (path) => flippedBits(path, 23))).toEqual([]);
});

it('F58 a list of sent notifications with a kind that this version does not know is as good as none', async () => {
  const { path } = await filled();
  const write = (name: string): void => {
    const sent = { [name]: { at: NOON.toISOString(), keys: ['dataset d'] } };
    const database = new Database(path);
    database.prepare('UPDATE notifications SET ledger = ?').run(JSON.stringify({ sent, pending: {} }));
    database.close();
  };
  for (const name of ['suspendee refused', 'constructor refused', '']) {
    write(name);
    readFrom(path);
    copyFrom(path);
  }
  write('suspended refused');
  const checkpoint = await openAt(path);
  expect(Object.keys(checkpoint.notificationLedger().sent)).toEqual(['suspended refused']);
  checkpoint.close();
});

it('F58 a request that was refused with a code that this version does not know was refused for a bug', async () => {
  const { path } = await filled();
  const database = new Database(path);
  database.exec("UPDATE requests SET answer = replace(answer, 'command_refused', 'command_refusee')");
  database.close();
  const checkpoint = await openAt(path);
  expect(await checkpoint.requests.state('refused')).toMatchObject({ kind: 'refused', error: 'bug' });
  checkpoint.close();
});
