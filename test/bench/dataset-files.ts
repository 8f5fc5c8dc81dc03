/**
 * The files that both sides of a case work on. Millions of rows take a minute to write, so files are kept between
 * benches, in the folder for temporary files, under a digest of the recipe and of the code that wrote them.
 */

import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Row, WrittenFile } from '../../fixtures/source/content.ts';
import {
  type GeneratedDataset,
  type GenerateRequest,
  generateDatasets,
} from '../../fixtures/source/generate.ts';
import { writeSnapshot } from '../../fixtures/source/snapshot.ts';
import { writeAltered } from './altered-rows.ts';
import { writeRepeated } from './repeated-rows.ts';

export interface Recipe extends GenerateRequest {
  readonly filesPerDataset: number;
  /**
   * The generator writes so many rows; DuckDB, which is much faster, repeats them under further keys. Only for one
   * dataset of parcels.
   */
  readonly writtenRows?: number;
}

/** As many as in the cases of one large dataset, so that what is written for them serves here, too. */
const SEED_FILES = 8;

export interface DatasetFiles {
  readonly datasetId: string;
  readonly rowCount: number;
  readonly files: readonly WrittenFile[];
}

/** The recipe's datasets with their files, written now where they are not kept from an earlier bench. */
export async function datasetFiles(recipe: Recipe): Promise<readonly DatasetFiles[]> {
  return keptFiles(await digestOf(recipe), (folder) =>
    recipe.writtenRows === undefined
      ? writeDatasets(recipe, folder)
      : repeatDataset(recipe, recipe.writtenRows, folder),
  );
}

/** The same datasets with other content: one row in so many differs. Only for one dataset of parcels. */
export async function alteredFiles(recipe: Recipe, oneIn: number): Promise<readonly DatasetFiles[]> {
  const first = await datasetFiles(recipe);
  return keptFiles(`${await digestOf(recipe)}-altered-${oneIn}`, (folder) =>
    Promise.all(
      first.map(async (dataset) => ({ ...dataset, files: await writeAltered(dataset.files, oneIn, folder) })),
    ),
  );
}

/** What `write` has written into the folder that it is given, now or for an earlier bench. Its paths begin in that folder. */
export async function keptFiles(
  name: string,
  write: (folder: string) => Promise<readonly DatasetFiles[]>,
): Promise<readonly DatasetFiles[]> {
  const parent = join(tmpdir(), 'feed-sync-bench-files');
  const folder = join(parent, name);
  const written = await readList(folder);
  if (written !== null) return written;
  await mkdir(parent, { recursive: true });
  const unfinished = await mkdtemp(join(parent, 'unfinished-'));
  await writeFile(join(unfinished, 'list.json'), JSON.stringify(await write(unfinished)));
  await rename(unfinished, folder).catch(async (error: unknown) => {
    // Another bench on this machine has written the same meanwhile.
    if ((await readList(folder)) === null) throw error;
    await rm(unfinished, { recursive: true });
  });
  return (await readList(folder)) ?? [];
}

async function writeDatasets(recipe: Recipe, folder: string): Promise<readonly DatasetFiles[]> {
  const list: DatasetFiles[] = [];
  for (const [number, dataset] of generateDatasets(recipe).entries()) {
    list.push(await writeDataset(dataset, join(folder, String(number)), recipe.filesPerDataset));
  }
  return list;
}

async function repeatDataset(
  { writtenRows: _, ...recipe }: Recipe,
  writtenRows: number,
  folder: string,
): Promise<readonly DatasetFiles[]> {
  const written = await datasetFiles({ ...recipe, rowsPerDataset: writtenRows, filesPerDataset: SEED_FILES });
  const [{ datasetId, files: seeds } = { datasetId: '', files: [] }] = written;
  const { rowsPerDataset: rowCount, filesPerDataset: fileCount } = recipe;
  const files = await writeRepeated({ seeds, seedRows: writtenRows, rowCount, fileCount, folder });
  return [{ datasetId, rowCount, files }];
}

/** Null where the files are not there. */
async function readList(folder: string): Promise<readonly DatasetFiles[] | null> {
  let text: string;
  try {
    text = await readFile(join(folder, 'list.json'), 'utf8');
  } catch {
    return null;
  }
  const list: readonly DatasetFiles[] = JSON.parse(text);
  return list.map((dataset) => ({
    ...dataset,
    files: dataset.files.map((file) => ({ ...file, path: join(folder, file.path) })),
  }));
}

/** Paths are given from the folder of the list, which moves once it is complete. */
async function writeDataset(
  dataset: GeneratedDataset,
  folder: string,
  fileCount: number,
): Promise<DatasetFiles> {
  await mkdir(folder);
  const { schema, rowCount, rows } = dataset.initial();
  const rest = rows()[Symbol.iterator]();
  const rowsPerFile = Math.ceil(rowCount / fileCount);
  const files: WrittenFile[] = [];
  for (let number = 0; number < fileCount; number += 1) {
    const name = `part-${number}.parquet`;
    const facts = await writeSnapshot({ schema, rows: take(rest, rowsPerFile), path: join(folder, name) });
    files.push({ path: join(folder.slice(folder.lastIndexOf('/') + 1), name), ...facts });
  }
  return { datasetId: dataset.datasetId, rowCount, files };
}

function* take(rows: Iterator<Row>, count: number): Generator<Row> {
  for (let taken = 0; taken < count; taken += 1) {
    const next = rows.next();
    if (next.done === true) return;
    yield next.value;
  }
}

async function digestOf(recipe: Recipe): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(recipe));
  const source = fileURLToPath(new URL('../../fixtures/source', import.meta.url));
  const names = await readdir(source);
  for (const name of names.filter((file) => file.endsWith('.ts')).sort())
    hash.update(await readFile(join(source, name)));
  if (recipe.writtenRows !== undefined) {
    hash.update(await readFile(new URL('repeated-rows.ts', import.meta.url)));
  }
  return hash.digest('hex').slice(0, 16);
}
