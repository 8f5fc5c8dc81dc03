/**
 * `npm run faults -- --seed 1 --count 100`: damages the files of an installation as disks do, one place after another, and judges
 * what becomes of each. The seed of the nth fault is the first seed and n.
 */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { Command } from 'commander';
import { projectRoot } from '../support/source-tree.ts';
import { faultOf, KINDS } from './fault.ts';
import { installationIn } from './installation.ts';
import { judged, OUTCOMES } from './judge.ts';

const { seed, count, keep } = new Command('faults')
  .description('Damages the files of an installation, one place after another.')
  .option('--seed <number>', 'of the first fault', Number, 1)
  .option('--count <number>', 'of faults', Number, 100)
  .option('--keep <folder>', 'where damaged installations are kept of which something was wrong')
  .parse()
  .opts<{ seed: number; count: number; keep?: string }>();

const git = (...words: readonly string[]): string =>
  execFileSync('git', words, { cwd: projectRoot, encoding: 'utf8' }).trim();
const commit = `${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain', 'src') === '' ? '' : ' and changes'}`;
process.exitCode = await main();

async function main(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-faults-'));
  const installation = await installationIn(folder);
  const counts = new Map<string, number>();
  let wrong = 0;
  let tried = 0;
  let isStopped = false;
  process.once('SIGINT', () => {
    isStopped = true;
  });
  try {
    for (; tried < count && !isStopped; tried += 1) {
      const fault = faultOf(seed + tried);
      const { state, file, kind } = fault;
      const { outcome, done, faults } = await judged(fault, installation, keep ?? null);
      const place = `${file} ${kind} ${outcome}`;
      counts.set(place, (counts.get(place) ?? 0) + 1);
      if (outcome !== 'wrong') continue;
      wrong += 1;
      process.stdout.write(
        `npm run faults -- --seed ${fault.seed} --count 1\n  ${state}, ${file}, ${kind}: ${done}\n  ${faults.join('\n  ')}\n`,
      );
    }
  } finally {
    await installation.county.feed.close();
    rmSync(folder, { recursive: true, force: true });
  }
  process.stdout.write(
    `${table(counts)}\nCommit ${commit}, seeds ${seed} to ${seed + tried - 1}: ${wrong} of ${tried} wrong.\n`,
  );
  return wrong === 0 ? 0 : 1;
}

function table(counts: ReadonlyMap<string, number>): string {
  const files = [...new Set([...counts.keys()].map((key) => key.split(' ')[0] ?? ''))].sort();
  const rows = files.flatMap((file) =>
    KINDS.map((kind) => {
      const cells = OUTCOMES.map((outcome) => String(counts.get(`${file} ${kind} ${outcome}`) ?? 0));
      return `| ${file}, ${kind} | ${cells.join(' | ')} |`;
    }),
  );
  return [`| | ${OUTCOMES.join(' | ')} |`, `|---|${OUTCOMES.map(() => '---').join('|')}|`, ...rows].join(
    '\n',
  );
}
