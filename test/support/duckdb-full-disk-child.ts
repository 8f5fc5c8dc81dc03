/**
 * A process that may write files of a limited size only, which to DuckDB is a full disk. It loads what its arguments
 * say, and prints what becomes of it as JSON: the outcomes, or the error.
 *
 * Arguments: folder, rows of the first unit, rows of the second.
 */

import { systemClock } from '../../src/lib/clock.ts';
import { FeedSyncError } from '../../src/model/errors.ts';
import { column, load, mirrorIn, snapshot } from './duckdb-mirror.ts';

const [, , folder = '', ...files] = process.argv;
const mirror = await mirrorIn(folder, { clock: systemClock });
const columns = [column('id', 'integer'), column('name', 'string')];
const report = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`);
const plain = (error: unknown) =>
  error instanceof FeedSyncError
    ? { name: error.name, message: error.message, hint: error.hint }
    : String(error);
try {
  const jobs = files.map((file, index) => snapshot({ datasetId: `unit-${index}`, columns, files: [file] }));
  const outcomes = await load(mirror, ...jobs);
  report(outcomes.map((outcome) => (outcome.kind === 'failed' ? plain(outcome.error) : outcome.kind)));
} catch (error) {
  report({ thrown: plain(error) });
}
report([...(await mirror.has()).datasets.keys()]);
await mirror.close();
