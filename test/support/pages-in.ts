import { join } from 'node:path';

/** Where the pages of a version of changes go in a folder. */
export function pagesIn(directory: string): (page: number) => string {
  return (page) => join(directory, `changes-${page}.json`);
}
