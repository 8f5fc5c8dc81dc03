/** Post-commit work by real processes: killed at every step, stopped, and for months beside a reader (F01). */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startChild } from '../support/child.ts';
import { countyFeed } from '../support/county-feed.ts';
import { duckdb } from '../support/duckdb-mirror.ts';
import { expectMirrored, once } from '../support/expect-mirrored.ts';
import { hookProgram, notedBy, notedLines, notingProgram } from '../support/hook-program.ts';
import { logged } from '../support/logged.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { eventually } from '../support/patience.ts';
import { program } from '../support/program.ts';
import { everythingPublished } from '../support/published.ts';
import { sourceFiles } from '../support/source-tree.ts';
import { steered } from '../support/steered-process.ts';

async function installation(command: (noted: string) => readonly string[] = notingProgram) {
  const made = await countyFeed({ kinds: ['zoning'], rowsPerDataset: 20 });
  const { feed } = made;
  const installed = await program({
    feed,
    environment: {
      FEED_SYNC_DISK_RESERVE: '0MB',
      FEED_SYNC_POLL_EVERY: '1s',
      FEED_SYNC_DESTINATION_PUBLISH_EVERY: '1s',
    },
  });
  const copy = join(installed.home, 'out', 'copy.duckdb');
  const noted = join(installed.home, 'noted');
  const configure = (words: readonly string[]): void => {
    const settings = { destination: { publish: copy }, hooks: { afterCommit: words } };
    writeFileSync(join(installed.home, 'work', 'feed-sync.yaml'), JSON.stringify(settings));
  };
  configure(command(noted));
  const copyDifferences = () => mirrorDifferences(copy, everythingPublished(feed));
  const publish = (): void => void made.publishNext(made.datasetOf('zoning'));
  return { ...made, installed, copy, noted, configure, copyDifferences, publish };
}

/** The durable effects of publishing and notifying, as the code names them, that are met where nothing goes wrong. */
async function postCommitSteps(): Promise<readonly string[]> {
  const code = (await sourceFiles('src')).map((file) => file.code).join('\n');
  const names = Array.from(
    code.matchAll(/'((?:destination\.publish|checkpoint\.hook)[a-z-]*)'/g),
    ([, name = '']) => name,
  );
  return [...new Set(names)].filter(
    (name) => !['destination.publish-discard', 'checkpoint.hook-failed'].includes(name),
  );
}

describe('once', () => {
  it('F01 once killed before and after every step: a whole copy serves, and the command is notified of every commit', async () => {
    const { installed, copy, noted, copyDifferences, publish, feed, datasetOf } = await installation();
    const table = datasetOf('zoning').replaceAll('-', '_');
    const isClone = (await once(installed)).stdout.includes('as a clone');
    const steps = (await postCommitSteps()).filter((step) => !isClone || !/-(?:open|copy)$/.test(step));
    expect(steps.length).toBeGreaterThanOrEqual(6);
    for (const timestamp of steps.flatMap((step) => [`before ${step}`, `after ${step}`])) {
      publish();
      await feed.prepareSnapshots();
      const version = notedBy(noted).at(-1)?.commits.at(-1)?.toVersion ?? 0;
      const killed = await installed.runWith(steered({ killAt: timestamp }), 'once');
      expect(killed.signal, timestamp).toBe('SIGKILL');
      const [[serving, rows, counted] = []] = await duckdb(
        `ATTACH '${copy}' AS c (READ_ONLY)`,
        'USE c',
        `SELECT version, row_count, (SELECT count(*) FROM ${table}) FROM feed_sync.datasets`,
      );
      expect([version, version + 1], timestamp).toContain(Number(serving));
      expect(counted, timestamp).toBe(rows);
      await once(installed);
      expect(await copyDifferences(), timestamp).toEqual([]);
      expect(readdirSync(dirname(copy)), timestamp).toEqual(['copy.duckdb']);
      expect(notedBy(noted).at(-1)?.commits.at(-1)?.toVersion, timestamp).toBe(version + 1);
    }
    const reported = notedLines(noted).flat();
    expect(reported.length, 'one was notified again').toBeGreaterThan(Math.max(...reported));
    expect([...new Set(reported)]).toEqual(
      Array.from({ length: Math.max(...reported) }, (_, index) => index + 1),
    );
    await expectMirrored(installed, feed);
  });
});

describe('run', () => {
  it('run publishes copies after commits, while a reader stays in the first, and notifies the command of each commit', async () => {
    const { installed, copy, noted, copyDifferences, publish } = await installation();
    const run = installed.start('run');
    await logged(run, 'Notified the command after commits');
    const reader = startChild('duckdb-holder-child.ts', copy);
    onTestFinished(() => reader.kill());
    expect(await reader.nextLine()).toBe('held');
    for (let version = 2; version <= 4; version += 1) {
      publish();
      await logged(run, 'Notified the command after commits', version);
    }
    expect(await copyDifferences()).toEqual([]);
    expect(notedLines(noted)).toEqual([[1], [2], [3], [4]]);
    run.kill('SIGTERM');
    expect(await run.ended).toMatchObject({ exitCode: 0 });
  });

  it('a command that fails delays nothing, is in the status, and is notified again', async () => {
    const { installed, noted, publish, copyDifferences, configure } = await installation(() =>
      hookProgram("console.error('the warehouse is shut'); process.exit(1);"),
    );
    const run = installed.start('run');
    const output = await logged(run, 'The command after commits failed.');
    expect(output).toContain('the warehouse is shut');
    await logged(run, 'Failed; will be tried again.');
    publish();
    await logged(run, 'Applied changes.');
    await eventually(async () => expect(await copyDifferences()).toEqual([]));
    const status = (await installed.run('status', '--json')).stdout;
    const { afterCommit, publishedCopy } = JSON.parse(status);
    expect(afterCommit).toMatchObject({
      reportedAt: null,
      failure: { message: expect.stringContaining('ended with 1.') },
    });
    expect(status).not.toContain('the warehouse is shut');
    expect(publishedCopy.publishedAt).not.toBeNull();
    configure(notingProgram(noted));
    run.kill('SIGHUP');
    await logged(run, 'Notified the command after commits');
    expect(notedLines(noted)).toEqual([[1, 2]]);
    run.kill('SIGTERM');
    expect(await run.ended).toMatchObject({ exitCode: 0 });
  });

  it('run that is stopped while the command runs ends the command, and the next start notifies it again', async () => {
    const { installed, noted, configure } = await installation((path) =>
      hookProgram(
        `fs.writeFileSync(${JSON.stringify(path)}, process.pid + ';'); setInterval(() => {}, 1000);`,
      ),
    );
    const run = installed.start('run');
    const pid = await eventually(() => {
      const text = readFileSync(noted, 'utf8');
      expect(text).toMatch(/^\d+;$/);
      return Number.parseInt(text, 10);
    });
    run.kill('SIGTERM');
    expect(await run.ended).toMatchObject({ exitCode: 0 });
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    writeFileSync(noted, '');
    configure(notingProgram(noted));
    await once(installed);
    expect(readFileSync(noted, 'utf8').trim().split('\n')).toHaveLength(1);
    expect(readFileSync(noted, 'utf8')).toContain('"commit":1');
  });
});
