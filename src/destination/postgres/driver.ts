/** What the driver is told of an address, and what it makes of the values of a result: whole numbers are bigint, times are text. */

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

/** Words for `verify-full` to the driver, which warns of them on standard error, among the lines of the log. */
const ALIASES = /(?<=[?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/;
/** With this parameter they have the meaning of libpq. */
const OF_LIBPQ = /[?&]uselibpqcompat=true(?=&|$)/;

/** Returns the address in words that the driver takes without a warning. */
export function forDriver(address: string): string {
  return OF_LIBPQ.test(address) ? address : address.replace(ALIASES, 'verify-full');
}

/** The types of the driver do not know that a statement can have a time. */
export function answeredWithin(query_timeout: number, text: string): pg.QueryConfig {
  const config: pg.QueryConfig & Pick<pg.ClientConfig, 'query_timeout'> = { text, query_timeout };
  return config;
}

/** The driver gave up on an answer, which may still come. It has no code for that. */
export function isUnanswered(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout';
}

/** The process of the server that was named when the connection began. */
export function announcedBackend(client: pg.Client): number {
  return Number((client as unknown as { processID: number | null }).processID ?? 0);
}
