/** The checkpoint in memory is as good as the real one: a sample of histories goes the same way on both. */

import { expect, it } from 'vitest';
import { openNew } from '../support/checkpoint-files.ts';
import { historyText, parseHistory } from './history.ts';
import { play } from './play.ts';
import { ALL_SETTINGS, settingText } from './setting.ts';

/** No store is lost in these histories: only the model can lose one. */
const STEPS = [
  'P@events1 R@manifest1',
  'W@manifest1 . P@list1',
  'N@list1 . n@versions1',
  'L(A)@events1 . J(A)@events1',
  'X@list1 R@list1',
  'F(A)@list1 R@list1 . T@list1',
  'G@list1 P@list1 . Y@list1',
  'P@list1 . B@list1 . R@list1 . U@list1',
  'S@list1 P@list1 . R@list1 . U@list1',
  'H@list1 P@list1 . Z@list1 . P@list1',
];

const HISTORIES = ALL_SETTINGS.map((setting, index) =>
  historyText(parseHistory(`${settingText(setting)}: ${STEPS[index % STEPS.length]}`)),
);

it.each(HISTORIES)('plays alike on the model checkpoint and on that of the program: %s', async (text) => {
  const onModel: string[] = [];
  const onReal: string[] = [];
  const history = parseHistory(text);
  const model = await play(history, { report: (line) => void onModel.push(line) });
  const real = await play(history, {
    checkpoint: await openNew(),
    report: (line) => void onReal.push(line),
  });
  expect(onReal).toEqual(onModel);
  expect(real).toEqual(model);
});
