/** What the driver makes of the values of a result: whole numbers are bigint, times are text. */

import pg from 'pg';

const BOOLEAN = 16;
const WHOLE_NUMBERS: ReadonlySet<number> = new Set([20, 21, 23, 26, 1700]);
const TEXT_LIST = 1009;

/** The types of the driver know no lists. */
const readTextList = pg.types.getTypeParser(Number(TEXT_LIST));

export const TYPES = {
  getTypeParser(type: number): (value: string) => unknown {
    if (WHOLE_NUMBERS.has(type)) return BigInt;
    if (type === BOOLEAN) return (value) => value === 't';
    if (type === TEXT_LIST) return readTextList;
    return String;
  },
};
