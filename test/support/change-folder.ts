/** The folder in which the tests of a file coalesce changes. */

import { afterAll, beforeAll } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import { type ChangeFolder, changeFolder } from './change-pages.ts';

/** Opens the folder before the tests of the file, and closes it after them. */
export function changeFolderOfTests(): Omit<ChangeFolder, 'close'> {
  let folder: ChangeFolder | null = null;
  beforeAll(async () => {
    folder = await changeFolder();
  });
  afterAll(() => folder?.close());
  const opened = () => present(folder, 'the folder is open');
  return {
    get engine() {
      return opened().engine;
    },
    coalesce: (table, ...versions) => opened().coalesce(table, ...versions),
    refusal: (table, ...versions) => opened().refusal(table, ...versions),
  };
}
