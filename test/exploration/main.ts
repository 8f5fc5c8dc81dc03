/** `npm run explore`: explores histories, or replays one, and prints the broken rules. */

import process from 'node:process';
import { parseArgs } from 'node:util';
import { type Explored, exploreAll, exploreRandom, nothingExplored } from './explore.ts';
import { parseHistory } from './history.ts';
import { Wrong } from './judge.ts';
import { play } from './play.ts';
import { seededRandom } from './random.ts';
import { ALL_SETTINGS, type Setting, settingText } from './setting.ts';

const USAGE = `Explores what a small service may do between any two requests of a catch-up, and prints the broken rules.

  npm run explore -- [--depth N] [--setting TEXT] [--with LETTERS] [--share I/N] [--seed N] [--random M]
  npm run explore -- "two/time/noid: R@events2 F(A)@manifest1 . P@list1"

  --depth N       every history of up to N steps, 0 to 2 (2; 0 with --random)
  --setting TEXT  only the settings that have these words: two/time
  --with LETTERS  of the histories of two steps, only those with one of these steps: GYBU
  --share I/N     only every N-th history of two steps, from the I-th on
  --seed N        the seed of the random histories (1)
  --random M      so many random histories of three to six steps (0)
  HISTORY         plays this one, and prints all that happens

It ends with 0 if every rule holds, and with 1 if one is broken. Every history that fails is printed.
`;

process.exitCode = await main(process.argv.slice(2));

async function main(words: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...words],
    allowPositionals: true,
    options: {
      depth: { type: 'string' },
      setting: { type: 'string', default: '' },
      share: { type: 'string', default: '1/1' },
      with: { type: 'string', default: '' },
      seed: { type: 'string', default: '1' },
      random: { type: 'string', default: '0' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  if (positionals.length > 0) return await replay(positionals.join(' '));
  const random = Number(values.random);
  const depth = Number(values.depth ?? (random > 0 ? 0 : 2));
  const settings = ALL_SETTINGS.filter((setting) => hasWords(setting, values.setting));
  const startedMs = performance.now();
  const all = nothingExplored();
  const [share = 1, shares = 1] = values.share.split('/').map(Number);
  for (const setting of settings) {
    const explored = nothingExplored();
    await exploreAll(setting, depth, explored, (number, steps) => {
      const isWith = values.with === '' || steps.some(({ kind }) => values.with.includes(kind));
      return isWith && number % shares === share - 1;
    });
    report(settingText(setting), explored, startedMs);
    add(all, explored);
  }
  const seeded = seededRandom(Number(values.seed));
  for (let played = 0; played < random; played += 1) {
    const setting = settings[Math.floor(seeded() * settings.length)] as Setting;
    const before = all.found.length;
    await exploreRandom(setting, 3 + Math.floor(seeded() * 4), seeded, all);
    for (const { history, wrong } of all.found.slice(before))
      process.stdout.write(`${history}\n    ${wrong}\n`);
  }
  report('in all', { ...all, found: [] }, startedMs);
  process.stdout.write(`${all.found.length} break a rule.\n`);
  return all.found.length === 0 ? 0 : 1;
}

function hasWords(setting: Setting, words: string): boolean {
  const own = settingText(setting).split('/');
  return words.split('/').every((word) => word === '' || own.includes(word));
}

function add(all: Explored, { histories, requests, catchUpsOfCalm, leftOut, met, found }: Explored): void {
  all.histories += histories;
  all.requests += requests;
  all.leftOut += leftOut;
  all.catchUpsOfCalm = Math.max(all.catchUpsOfCalm, catchUpsOfCalm);
  all.found.push(...found);
  for (const state of met) all.met.add(state);
}

function report(
  what: string,
  { histories, requests, catchUpsOfCalm, leftOut, met, found }: Explored,
  startedMs: number,
): void {
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0);
  for (const { history, wrong } of found) process.stdout.write(`${history}\n    ${wrong}\n`);
  process.stdout.write(
    `${what}: ${histories} histories, ${met.size} states, ${requests} requests, at most ${catchUpsOfCalm} catch-ups of calm; ${seconds} s\n`,
  );
  if (leftOut > 0)
    process.stdout.write(`${leftOut} histories are beyond the limit of a setting, and were not played.\n`);
}

async function replay(text: string): Promise<number> {
  try {
    const { unreached } = await play(parseHistory(text), {
      report: (line) => process.stdout.write(`${line}\n`),
    });
    if (unreached.length > 0) process.stdout.write('Not all of its steps happened.\n');
    return 0;
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    process.stdout.write(`${error.message}\n`);
    return 1;
  }
}
