/** Scenarios of what is done for those who build on the mirror: the published copy, and the command after commits. */

import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { EXPORT_LOCK } from '../../../src/post-commit/export/folder.ts';
import { emptyManifest, type Manifest, parseManifest } from '../../../src/post-commit/export/generation.ts';
import { once } from '../../support/expect-mirrored.ts';
import { hookProgram, notedLines, notingProgram } from '../../support/hook-program.ts';
import { mirrorDifferences } from '../../support/mirror-comparison.ts';
import { until } from '../../support/patience.ts';
import type { Program, Running } from '../../support/program.ts';
import { everythingPublished } from '../../support/published.ts';
import { sameText } from '../../support/same-text.ts';
import type { Act, Scenario, Stage } from '../scenario.ts';

const TOLD = '"msg":"Notified the command after commits';

export const POST_COMMIT: readonly Scenario[] = [
  {
    name: 'publish',
    summary: 'new versions become a new copy, and the command after commits is run',
    killedAt: 'every name',
    async validate(stage) {
      const { copy, noted } = configured(stage.installed);
      await once(stage.installed);
      const before = everythingPublished(stage.county.feed);
      for (const datasetId of stage.county.datasetIds) stage.county.publishNext(datasetId);
      return {
        copy,
        wrongAtTheKill: async () => {
          const [old, next] = [before, everythingPublished(stage.county.feed)];
          const fromOld = await mirrorDifferences(copy, old);
          return fromOld.length === 0 || (await mirrorDifferences(copy, next)).length === 0
            ? []
            : ['the copy is neither what it was nor what it will be', ...fromOld];
        },
        wrongAtTheEnd: async () => wronglyReported(noted),
      };
    },
  },
  {
    name: 'publish first',
    summary: 'the first copy of a mirror, in a folder that is not there yet',
    killedAt: 'its own names',
    async validate({ installed }) {
      await once(installed);
      const { copy, noted } = configured(installed);
      return { copy, wrongAtTheEnd: async () => wronglyReported(noted) };
    },
  },
  {
    name: 'publish again',
    summary: '`run` publishes a copy, and another one after the next commit',
    killedAt: 'its own names',
    validate: publishAgain,
  },
  {
    name: 'publish in vain',
    summary: 'no room for the copy',
    killedAt: 'its own names',
    async validate({ installed }) {
      await once(installed);
      const { copy } = configured(installed);
      return {
        environment: { FEED_SYNC_DISK_RESERVE: '1000TB' },
        exitCode: 74,
        // What is done again has room.
        again: () => ({ exitCode: 0 }),
        mayDiffer: ['files', 'checkpoint'],
        wrongAtTheEnd: async () => sameText('beside the copy', readdirSync(dirname(copy)), [basename(copy)]),
      };
    },
  },
  {
    name: 'export',
    summary: 'new versions become a new generation of the export, and the last one goes',
    killedAt: 'its own names',
    validate: exportAgain,
  },
  {
    name: 'hook fails',
    summary: 'the command after commits fails',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      configured(installed, hookProgram('process.exit(1);'));
      await once(installed, 75);
      for (const datasetId of county.datasetIds) county.publishNext(datasetId);
      return { exitCode: 75 };
    },
  },
];

/** Readers find one whole generation at the kill, and afterwards the files of the newest one and no others. */
async function exportAgain({ county, installed }: Stage): Promise<Act> {
  const folder = join(installed.home, 'out', 'export');
  const settings = JSON.stringify({ export: { path: folder, keep: 1 } });
  writeFileSync(join(installed.home, 'work', 'feed-sync.yaml'), settings);
  await once(installed);
  const versionOf = (): ReadonlyMap<string, number> =>
    new Map(
      everythingPublished(county.feed).datasets.map(({ datasetId, version }) => [datasetId, version.version]),
    );
  const old = versionOf();
  for (const datasetId of county.datasetIds) county.publishNext(datasetId);
  const next = versionOf();
  return {
    // The order of commits is in the names of the files; those of the export are compared below.
    mayDiffer: ['files'],
    wrongAtTheKill: async () => {
      const { manifest, wrong } = generationIn(folder);
      const isOf = (versions: ReadonlyMap<string, number>): boolean =>
        manifest.files.every(({ dataset, version }) => versions.get(dataset) === version);
      return [
        ...wrong,
        ...(isOf(old) || isOf(next) ? [] : ['the generation is neither the old nor the new one']),
      ];
    },
    wrongAtTheEnd: async () => {
      const { manifest, wrong } = generationIn(folder);
      const found = new Map(manifest.files.map(({ dataset, version }) => [dataset, version]));
      const left = readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
      const named = [EXPORT_LOCK, 'manifest.json', ...manifest.files.map(({ file }) => file)];
      return [
        ...wrong,
        ...sameText('versions of the export', [...found].toSorted(), [...next].toSorted()),
        ...sameText('files of the export', left.toSorted(), named.toSorted()),
      ];
    },
  };
}

function generationIn(folder: string): { readonly manifest: Manifest; readonly wrong: readonly string[] } {
  const manifest = parseManifest(readFileSync(join(folder, 'manifest.json'), 'utf8')) ?? emptyManifest();
  const wrong = manifest.files
    .filter(({ file, bytes }) => statSync(join(folder, file), { throwIfNoEntry: false })?.size !== bytes)
    .map(({ file }) => `${file} is not what the manifest says`);
  return { manifest, wrong: manifest.generation === 0 ? ['there is no generation'] : wrong };
}

/** The first copy is of the mirror at the start; new versions come once the command has reported that copy. */
async function publishAgain({ county, installed }: Stage): Promise<Act> {
  await once(installed);
  const { copy, noted } = configured(installed);
  for (const datasetId of county.datasetIds) county.publishNext(datasetId);
  let isNew = Promise.withResolvers<void>();
  county.feed.faults.add({
    match: { operation: 'events', times: 'always' },
    act: { kind: 'wait', until: () => isNew.promise },
  });
  return {
    words: ['run'],
    before() {
      isNew = Promise.withResolvers();
    },
    environment: { FEED_SYNC_DESTINATION_PUBLISH_EVERY: '1s' },
    async untilDone(running, ended) {
      await reported(running, 1, ended);
      isNew.resolve();
      await reported(running, 2, ended);
    },
    again: () => ({ words: ['once'] }),
    copy,
    wrongAtTheEnd: async () => wronglyReported(noted),
  };
}

function reported(running: Running, times: number, ended: AbortSignal): Promise<void> {
  const isReported = (): boolean => running.stderr().split(TOLD).length > times;
  return until(`${times} notified commits in all`, () => ended.aborted || isReported());
}

/** An installation that publishes a copy and has a command. */
function configured(
  { home }: Program,
  command?: readonly string[],
): { readonly copy: string; readonly noted: string } {
  const [copy, noted] = [join(home, 'out', 'copy.duckdb'), join(home, 'noted')];
  const hooks = { afterCommit: command ?? notingProgram(noted) };
  const settings = JSON.stringify({ destination: { publish: copy }, hooks });
  writeFileSync(join(home, 'work', 'feed-sync.yaml'), settings);
  return { copy, noted };
}

/** Every commit was reported, and at most one of them twice. */
function wronglyReported(noted: string): readonly string[] {
  const reported = notedLines(noted).flat();
  const all = Array.from({ length: Math.max(...reported) }, (_, index) => index + 1);
  return sameText('commits that were reported', [...new Set(reported)], all);
}
