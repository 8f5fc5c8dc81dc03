/** How the rows of a query can be written: what the command line has to know of it, without what writes them. */

export const QUERY_FORMATS = ['table', 'json', 'csv'] as const;
export type QueryFormat = (typeof QUERY_FORMATS)[number];
