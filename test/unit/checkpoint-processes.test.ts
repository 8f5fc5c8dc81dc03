/** The checkpoint and real processes: one is killed in the midst of steps, one writes while another reads. */

import { spawnSync } from 'node:child_process';
import { expect, it, onTestFinished } from 'vitest';
import type { CheckpointReader } from '../../src/checkpoint/checkpoint.ts';
import { openCheckpointReader } from '../../src/checkpoint/sqlite/open.ts';
import { openAt, temporaryPath } from '../support/checkpoint-files.ts';
import { type Child, scriptPath, startChild } from '../support/child.ts';

const KILLS = 4;
const ROUNDS = 20;

function startWriter(path: string): Child {
  const child = startChild('checkpoint-writer-child.ts', path);
  onTestFinished(() => child.kill());
  return child;
}

it('keeps desired states and cursor together when the process is killed in the midst of steps', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  for (let kill = 1; kill <= KILLS; kill += 1) {
    const writer = startWriter(path);
    const seen = await lines(writer, 3 * kill);
    await writer.kill();

    const checkpoint = await openAt(path);
    const cursor = checkpoint.followed().get('sub')?.cursor?.number ?? 0n;
    expect(cursor).toBeGreaterThanOrEqual(seen);
    expect(announced(checkpoint, 'first')).toBe(Number(cursor));
    expect(checkpoint.desired('second')?.reloads.at(-1)?.eventNumber).toBe(cursor);
    expect(announced(checkpoint, 'last')).toBe(Number(cursor));
    checkpoint.close();
  }
});

it('reads one state each time while another process writes', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  const writer = startWriter(path);
  for (let round = 1; round <= ROUNDS; round += 1) {
    const seen = await lines(writer, 3);
    const reader = openCheckpointReader({ path, uid: null });
    const version = (reader === null ? null : announced(reader, 'last')) ?? -1;
    expect(version).toBeGreaterThanOrEqual(Number(seen));
    expect(reader?.followed().get('sub')?.cursor?.number).toBe(BigInt(version));
    reader?.close();
  }
});

it.skipIf(process.platform === 'win32')(
  'F07 names the checkpoint file when it cannot grow, and keeps its content',
  async () => {
    const path = temporaryPath('checkpoint.sqlite');
    const limited = 'ulimit -f 300 && exec "$0" "$1" "$2"';
    const script = scriptPath('checkpoint-writer-child.ts');
    const ended = spawnSync('sh', ['-c', limited, process.execPath, script, path], { encoding: 'utf8' });
    expect(ended.stderr).toContain('StorageError');
    expect(ended.stderr).toContain(path);
    expect(ended.status).toBe(1);
    const committed = BigInt(ended.stdout.trim().split('\n').at(-1) ?? '');
    const checkpoint = await openAt(path);
    expect(committed).toBeGreaterThan(0n);
    expect(checkpoint.followed().get('sub')?.cursor?.number).toBe(committed);
    expect(announced(checkpoint, 'last')).toBe(Number(committed));
  },
);

/** What the writer's subscription announced of the dataset. */
function announced(checkpoint: CheckpointReader, datasetId: string): number | null {
  return checkpoint.desired(datasetId)?.members.get('sub')?.announced ?? null;
}

/** The last of so many further lines. */
async function lines(writer: Child, count: number): Promise<bigint> {
  let last = '';
  for (let line = 1; line <= count; line += 1) last = await writer.nextLine();
  return BigInt(last);
}
