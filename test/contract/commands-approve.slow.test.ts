/** `approve`: what the commands of an operator say about commits that wait, and what an approval does (F67). */

import { execFileSync } from 'node:child_process';
import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { difference } from '../../fixtures/source/diff.ts';
import { type CommandLine, commandLine } from '../support/command-line.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';

interface Installed extends CommandLine {
  readonly feed: FixtureFeed;
  readonly id: string;
  /** Publishes these rows as the next version. */
  publish(rows: ReturnType<typeof numberedRows>): void;
}

/** One dataset of ten rows, of which a commit may remove two. */
async function installed(environment: Readonly<Record<string, string>> = {}): Promise<Installed> {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY });
  onTestFinished(feed.close);
  const id = 'permits';
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: [id] });
  feed.publisher.addDataset({ datasetId: id });
  feed.publisher.publish(id, smallContent(numberedRows(10), null));
  const line = commandLine({
    feed,
    now: () => feed.clock.now(),
    environment: { FEED_SYNC_GATES_REMOVED_ROWS: '2', ...environment },
  });
  onTestFinished(() => line.remove());
  expect(await line.run('once')).toMatchObject({ exitCode: 0 });
  const publish = (rows: ReturnType<typeof numberedRows>): void => {
    const before = feed.store.dataset(id).versions.at(-1)?.content.rows() ?? [];
    feed.publisher.publish(id, smallContent(rows, difference(SMALL_SCHEMA, before, rows)));
  };
  return { ...line, feed, id, publish };
}

/** Content that waits is evicted at once. */
const NOTHING_KEPT = { FEED_SYNC_GATES_KEEP_CANDIDATES: '0MB' };

/** The command that status prints. */
async function commandOf({ run }: Installed): Promise<readonly string[]> {
  const { stdout } = await run('status');
  const [, words = ''] = /→ To commit exactly this: feed-sync (approve .*)$/m.exec(stdout) ?? [];
  return words.split(' ');
}

const rowsOf = async ({ dataDirectory, id }: Installed) =>
  Number(
    (
      await inMirror(dataDirectory, `SELECT row_count FROM feed_sync.datasets WHERE dataset_id = '${id}'`)
    )[0]?.[0],
  );

describe('a commit that waits for approval', () => {
  it('once ends with 77, and once, status, doctor and approve name a waiting commit with counts, keys and command', async () => {
    const world = await installed();
    world.publish(numberedRows(3));
    const { exitCode, stdout } = await world.run('once');
    expect(exitCode).toBe(77);
    const said = [
      `Dataset ${world.id} is suspended (awaiting_approval): version 2 would remove 7 of 10 rows, change none and add none`,
      'Removed keys: r00003 · r00004 · r00005 · r00006 · r00007 and 2 more',
      'what is mirrored stays as it is',
      `→ To commit exactly this: feed-sync approve ${world.id} --version 2 --content `,
    ];
    for (const text of said) expect(stdout).toContain(text);
    expect((await world.run('status')).stdout).toContain(said[1]);
    expect((await world.run('approve')).stdout).toContain(
      `1 commit waits for approval.\n\nDataset ${world.id}`,
    );
    expect(JSON.parse((await world.run('approve', '--json')).stdout)).toMatchObject({
      datasets: [
        { id: world.id, version: 2, rowsBefore: 10, rowsAfter: 3, removed: 7, isRekeyed: false, later: [] },
      ],
    });
    expect(JSON.parse((await world.run('status', '--json')).stdout)).toMatchObject({
      datasets: [{ state: 'suspended', version: 1, awaitingApproval: { version: 2, removed: 7 } }],
    });
    expect(await world.run('resume', '--all')).toMatchObject({
      exitCode: 0,
      stdout: 'Commits still wait for approval, which resume does not give: feed-sync approve\n',
    });
    const resume = await world.run('resume', '--dataset', world.id);
    expect(resume).toMatchObject({ exitCode: 64, stdout: '' });
    expect(resume.stderr).toContain(`${world.id} waits for an approval, which resume does not give.`);
    expect(resume.stderr).toContain(
      `→ To commit exactly what waits: feed-sync approve ${world.id} --version 2`,
    );
    const doctor = await world.run('doctor');
    expect(doctor.stdout).toContain('Removed keys: r00003');
    expect(doctor.stdout).toContain('feed-sync approve');
    expect(await rowsOf(world)).toBe(10);
  });
});

describe('approve', () => {
  it('F67 approve commits exactly the candidate while newer versions exist, which are judged after it', async () => {
    const world = await installed();
    world.publish(numberedRows(3));
    await world.run('once');
    world.publish(numberedRows(0));
    world.publish([...numberedRows(2)]);
    const { exitCode, stdout, stderr } = await world.run(...(await commandOf(world)));
    expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 });
    expect(stdout).toMatch(/^Committed version 2 of \S+ \([0-9a-f]{8}\): its table \w+ has 3 rows\.\n$/);
    await world.run('once');
    expect(await rowsOf(world)).toBe(2);
  });

  it('F67 approve refuses with 64 content that was approved, replaced or never waited, and names what waits', async () => {
    const world = await installed();
    world.publish(numberedRows(3));
    await world.run('once');
    const command = await commandOf(world);
    const wrong = await world.run('approve', world.id, '--version', '2', '--content', '00000000');
    expect(wrong).toMatchObject({ exitCode: 64, stdout: '' });
    expect(wrong.stderr).toContain('does not wait for approval. What waits is ');
    expect(wrong.stderr).toContain(`→ Where that is right: feed-sync ${command.join(' ')}`);
    world.feed.publisher.withdraw(world.id);
    world.publish(numberedRows(4));
    await world.run('once');
    const replaced = await world.run(...command);
    expect(replaced).toMatchObject({ exitCode: 64 });
    expect(replaced.stderr).toContain('version 2 would remove 6 of 10 rows');
    const now = await commandOf(world);
    expect(await world.run(...now)).toMatchObject({ exitCode: 0 });
    expect(await rowsOf(world)).toBe(4);
    const again = await world.run(...now);
    expect(again).toMatchObject({ exitCode: 64 });
    expect(again.stderr).toContain('Nothing of it waits.');
    expect((await world.run('approve')).stdout).toBe('Nothing waits for approval.\n');
  });

  it('F67 approve refuses with 64 an evicted snapshot that the service offers no more, and names what waits', async () => {
    const world = await installed(NOTHING_KEPT);
    const publishSnapshot = (rows: ReturnType<typeof numberedRows>): void => {
      world.feed.publisher.publish(world.id, smallContent(rows, null));
    };
    publishSnapshot(numberedRows(3));
    expect(await world.run('once')).toMatchObject({ exitCode: 77 });
    const command = await commandOf(world);
    publishSnapshot(numberedRows(2));
    const gone = await world.run(...command);
    expect(gone).toMatchObject({ exitCode: 64, stdout: '' });
    expect(gone.stderr).toContain('does not wait for approval. What waits is ');
    expect(gone.stderr).toContain('version 3 would remove 8 of 10 rows');
    expect(await rowsOf(world)).toBe(10);
    const now = await commandOf(world);
    expect(gone.stderr).toContain(`→ Where that is right: feed-sync ${now.join(' ')}`);
    expect(await world.run(...now)).toMatchObject({ exitCode: 0 });
    expect(await rowsOf(world)).toBe(2);
  });

  it('F67 approve commits a snapshot whose files were evicted, as it was judged, while the service offers it', async () => {
    const world = await installed(NOTHING_KEPT);
    world.feed.publisher.publish(world.id, smallContent(numberedRows(3), null));
    await world.run('once');
    expect(await world.run('once')).toMatchObject({ exitCode: 77 });
    expect(await world.run(...(await commandOf(world)))).toMatchObject({ exitCode: 0 });
    expect(await rowsOf(world)).toBe(3);
  });

  it.each([
    ['zeroes', (path: string) => writeFile(path, Buffer.alloc(100))],
    ['a folder', (path: string) => mkdir(path)],
    ['a named pipe', (path: string) => execFileSync('mkfifo', [path])],
  ] as const)('F67 approve fetches again what has become of the kept files: %s', async (_, put) => {
    const world = await installed();
    world.publish(numberedRows(3));
    await world.run('once');
    const staging = join(world.dataDirectory, 'staging');
    const paths = (await readdir(staging, { recursive: true })).filter((path) => path.endsWith('.json'));
    expect(paths).toHaveLength(1);
    for (const path of paths) {
      await rm(join(staging, path));
      await put(join(staging, path));
    }
    expect(await world.run(...(await commandOf(world)))).toMatchObject({ exitCode: 0 });
    expect(await rowsOf(world)).toBe(3);
    expect(await readdir(staging)).toEqual([]);
  });

  it('loads, keeps and commits where the staging folder is a link to another disk, and leaves what lies there', async () => {
    const world = await installed();
    const disk = join(world.dataDirectory, '..', 'disk [1]');
    onTestFinished(() => rm(disk, { recursive: true, force: true }));
    await mkdir(disk);
    await writeFile(join(disk, 'photos.zip'), 'x');
    const staging = join(world.dataDirectory, 'staging');
    await rm(staging, { recursive: true });
    await symlink(disk, staging);
    world.feed.publisher.publish(world.id, smallContent(numberedRows(9), null));
    expect(await world.run('once')).toMatchObject({ exitCode: 0 });
    world.publish(numberedRows(3));
    expect(await world.run('once')).toMatchObject({ exitCode: 77 });
    expect(await world.run(...(await commandOf(world)))).toMatchObject({ exitCode: 0 });
    expect(await rowsOf(world)).toBe(3);
    expect(await readdir(disk)).toEqual(['photos.zip']);
  });

  it('approve stores the approval when the content cannot be committed now, and the next catch-up that can commits it', async () => {
    const world = await installed();
    world.publish(numberedRows(3));
    await world.run('once');
    const command = await commandOf(world);
    const refusal = world.feed.faults.add({
      match: { operation: 'subscriptions', times: 'always' },
      act: {
        kind: 'respond',
        status: 401,
        json: { error: { code: 'revoked', message: 'The key is revoked.' } },
      },
    });
    expect(await world.run('once')).toMatchObject({ exitCode: 77 });
    const refused = await world.run(...command);
    expect(refused).toMatchObject({ exitCode: 77, stdout: '' });
    expect(refused.stderr).toContain('is approved, and not committed yet. The key is revoked.');
    world.feed.faults.remove(refusal.id);
    expect(await world.run('resume', '--workspace')).toMatchObject({ exitCode: 0 });
    await rm(join(world.dataDirectory, 'staging'), { recursive: true });
    const outage = world.feed.faults.add({
      match: { operation: 'changes', times: 'always' },
      act: { kind: 'respond', status: 400, json: { error: { code: 'bad_request', message: 'No.' } } },
    });
    const late = await world.run(...command);
    expect(late.exitCode).toBe(77);
    expect(late.stderr).toContain('is approved, and not committed yet. No.');
    world.feed.faults.remove(outage.id);
    expect(await world.run('resume', '--dataset', world.id)).toMatchObject({ exitCode: 0 });
    expect(await world.run('once')).toMatchObject({ exitCode: 0 });
    expect(await rowsOf(world)).toBe(3);
  });

  it.each([
    [['approve', 'parcels'], 'approve needs the version and the content'],
    [['approve', 'parcels', '--version', 'x', '--content', '3f9a1c20'], 'approve needs the version'],
    [['approve', 'parcels', '--version', '2', '--content', '3f9'], 'approve needs the version'],
  ])('refuses %j, which does not name a whole candidate', async (words, says) => {
    const world = await installed();
    const { exitCode, stderr } = await world.run(...words);
    expect(exitCode).toBe(64);
    expect(stderr).toContain(says);
  });

  it('approve without version and content shows the whole command for the waiting commit', async () => {
    const world = await installed();
    const without = await world.run('approve', world.id);
    expect(without.stderr).toContain(
      'For example: feed-sync approve parcels --version 12 --content 3f9a1c20',
    );
    world.publish(numberedRows(3));
    expect(await world.run('once')).toMatchObject({ exitCode: 77 });
    const command = await commandOf(world);
    const { exitCode, stderr } = await world.run('approve', world.id);
    expect(exitCode).toBe(64);
    expect(stderr).toContain(`version 2 would remove 7 of 10 rows`);
    expect(stderr).toContain(`To commit exactly this: feed-sync ${command.join(' ')}\n`);
    expect(await world.run(...command)).toMatchObject({ exitCode: 0 });
  });
});
