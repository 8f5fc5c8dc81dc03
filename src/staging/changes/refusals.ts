/**
 * Explains why changes are refused. Runs only after they were refused. A place is named by version, page and row, from 1, so
 * that an operator can look it up at the service.
 */

import { isUtf8 } from 'node:buffer';
import { readFile } from 'node:fs/promises';
import {
  BadChangesError,
  type FeedSyncError,
  InapplicableChangesError,
  InterruptedError,
} from '../../model/errors.ts';
import type { ChangesJob } from '../../model/write-jobs.ts';
import type { Engine } from '../engine/engine.ts';
import { DuckDbError, type Fault, firstLine, mirrorFailure } from '../engine/errors.ts';
import { numberAt, numberOrNullAt, textAt } from '../engine/sql.ts';
import { MAX_SHOWN_VALUE } from '../snapshot/scan-sql.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import { type Decoding, findRefused, TYPE_WORDS } from './decode.ts';
import type { OddGeometry } from './geometry.ts';
import type { RoundedNumber } from './numbers.ts';
import { bad, besidePages, type Page, pageAt, pageCells, valuesIn } from './pages.ts';

/** The faults that the content of pages can cause in DuckDB. */
const BY_CONTENT: ReadonlySet<Fault> = new Set<Fault>(['statement', 'unreadable', 'gave-up']);

/** Returns the error for the operator, from the error that was thrown while the pages were decoded. */
export async function refusal(
  engine: Engine,
  job: ChangesJob,
  decoding: Decoding,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof DuckDbError)) return error;
  if (engine.invalidated) await engine.reopen();
  if (error.fault === 'out-of-memory') return needsMemory(job);
  if (!BY_CONTENT.has(error.fault)) return await otherFault(job, error);
  return (
    (await refusedChange(engine, job, decoding)) ??
    (await refusedPage(job, decoding.pages.all)) ??
    unexplained(job, error)
  );
}

/** Loading a snapshot can use the whole memory, and proceeds row by row. */
function needsMemory({ datasetId, versions, version }: ChangesJob): InapplicableChangesError {
  const why = 'they take more memory than the examination of changes may use';
  return new InapplicableChangesError(datasetId, versions[0]?.version ?? version, why);
}

function unexplained({ datasetId, version }: ChangesJob, error: DuckDbError): BadChangesError {
  const message = `The changes of ${datasetId} up to version ${version} cannot be read: ${firstLine(error)}`;
  return new BadChangesError(datasetId, version, message);
}

async function otherFault({ datasetId, versions }: ChangesJob, error: DuckDbError): Promise<FeedSyncError> {
  if (error.fault === 'interrupted') {
    return new InterruptedError(`The validation of the changes of ${datasetId} was interrupted.`, {
      cause: error,
    });
  }
  return await mirrorFailure(error, { path: besidePages(versions, 'decoded.parquet') });
}

async function refusedChange(
  engine: Engine,
  job: ChangesJob,
  decoding: Decoding,
): Promise<BadChangesError | null> {
  try {
    const [row] = await engine.rows(findRefused(decoding));
    if (row === undefined) return null;
    const page = pageAt(decoding.pages, numberAt(row, 0));
    const position = numberOrNullAt(row, 3);
    const column = position === null ? undefined : decoding.columns.columns[position];
    const shown = textAt(row, 4);
    return bad(job, page, numberAt(row, 1), whyRefused(textAt(row, 2), shown, column));
  } catch (error) {
    // The search serves the message only. Its own failure must not hide the original error.
    if (engine.invalidated) await engine.reopen();
    if (error instanceof DuckDbError) return null;
    throw error;
  }
}

function whyRefused(why: string, shown: string, column: PlannedColumn | undefined): string {
  const name = JSON.stringify(column?.column.name);
  switch (why) {
    case 'operation':
      return `the operation is ${shown}, which is none of added, changed and removed`;
    case 'bare':
      return `the change has the operation ${shown}, but no ${shown === '"removed"' ? 'key and no row' : 'row'}`;
    case 'null':
      return `the key column ${name} is null`;
    case 'foreign':
      return (
        `the column ${name} holds ${shown}, which is in another coordinate system than the table: ` +
        `that is in ${column?.crs ?? 'an unknown one'}`
      );
    default:
      return `the column ${name} holds ${shown}, which is no ${TYPE_WORDS[column?.type ?? 'json']}`;
  }
}

export function oddGeometry(
  job: ChangesJob,
  page: Page,
  { line, column, written }: OddGeometry,
): BadChangesError {
  const shown = written.slice(0, MAX_SHOWN_VALUE);
  const why = `the column ${JSON.stringify(column)} holds ${shown}, which is no ${TYPE_WORDS.geometry}`;
  return bad(job, page, line, why);
}

async function refusedPage(job: ChangesJob, pages: readonly Page[]): Promise<BadChangesError | null> {
  for (const page of pages) {
    const why = whyUnreadable(await readFile(page.path));
    if (why !== null) return bad(job, page, why.line, why.why);
  }
  return null;
}

/** Returns the error of a rounded number. A rounded integer is invalid in a snapshot, too. A snapshot keeps the digits of a JSON value. */
export function roundedNumber(
  job: ChangesJob,
  page: Page,
  { line, column, type, number }: RoundedNumber,
): BadChangesError | InapplicableChangesError {
  const shown = number.slice(0, MAX_SHOWN_VALUE);
  const name = JSON.stringify(column);
  if (type === 'integer')
    return bad(job, page, line, `the column ${name} holds ${shown}, which is no ${TYPE_WORDS.integer}`);
  const where = `page ${page.number}, row ${page.changesBefore + line}`;
  const why = `on ${where} the column ${name} holds the number ${shown}, which would lose digits`;
  return new InapplicableChangesError(job.datasetId, page.version, why);
}

interface Unreadable {
  /** From 1; null means the whole page. */
  readonly line: number | null;
  readonly why: string;
}

/** Returns null when the page is valid. */
function whyUnreadable(bytes: Buffer): Unreadable | null {
  if (!isUtf8(bytes)) return { line: null, why: 'it is not in UTF-8' };
  const page = parse(bytes.toString('utf8'));
  if (page === null) return { line: null, why: 'it is not in JSON' };
  if (!Array.isArray(Object(page).changes)) return { line: null, why: 'it has no list of changes' };
  for (const { line, column, cell } of pageCells(page)) {
    for (const value of [column, ...valuesIn(cell)]) {
      if (typeof value === 'string' && !value.isWellFormed())
        return { line, why: whyIllFormed(column, value) };
    }
  }
  return null;
}

function whyIllFormed(column: string, value: string): string {
  const shown = JSON.stringify(value.slice(0, MAX_SHOWN_VALUE));
  return `the column ${JSON.stringify(column)} holds ${shown}, which is no text: half of a character stands alone`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
