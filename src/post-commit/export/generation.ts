/** A generation of the export: its manifest, what the next one keeps and writes, and where files lie. Pure. */

import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { ObservedTable } from '../../model/write-jobs.ts';

export const MANIFEST = 'manifest.json';
/** The mark of our manifests. A reader checks `format` before anything else. */
const FORMAT = 'feed-sync export 1';
/** A longer id is cut in the name of its folder; the manifest has it whole. */
const MAX_ID_BYTES = 180;
const DIGEST_DIGITS = 16;

const fileSchema = z.object({
  dataset: z.string(),
  table: z.string(),
  version: z.number(),
  /** The commit of `feed_sync.commits` that the file holds. */
  commit: z.number().nullable(),
  appliedAt: z.string(),
  rows: z.number(),
  keyColumns: z.array(z.string()),
  /** The coordinate system of each column of geometries, in the service's words; null: unknown. */
  geometries: z.array(z.object({ column: z.string(), crs: z.string().nullable() })),
  /** Relative to the folder of the manifest, with `/`. */
  file: z.string(),
  bytes: z.number(),
});

const manifestSchema = z.object({
  format: z.literal(FORMAT),
  /** From 1, one more each time. */
  generation: z.number().int().min(1),
  writtenAt: z.string(),
  /** Where the mirror is whose tables are exported: a path, or the address of a database. Earlier programs named none. */
  mirror: z.string().optional(),
  files: z.array(fileSchema),
});

export type Manifest = z.infer<typeof manifestSchema>;
export type ExportedFile = Manifest['files'][number];

/** Returns null for a text that is no manifest of an export. */
export function parseManifest(content: string): Manifest | null {
  try {
    return manifestSchema.parse(JSON.parse(content));
  } catch {
    return null;
  }
}

/** Returns the text of a manifest, with a line for each file. */
export function manifestText(manifest: Manifest): string {
  const { files, ...head } = manifest;
  const lines = files.map((file) => `  ${JSON.stringify(file)}`).join(',\n');
  return `${JSON.stringify(head).slice(0, -1)},"files":[\n${lines}\n]}\n`;
}

export function emptyManifest(): Manifest {
  return { format: FORMAT, generation: 0, writtenAt: '', files: [] };
}

/** Returns the name under which a generation that is not the newest one is kept. */
export function keptName(generation: number): string {
  return `manifest-${generation}.json`;
}

/** Returns the number in the name of a kept manifest; null for another name. */
export function keptGeneration(name: string): number | null {
  const [, digits] = /^manifest-(\d{1,15})\.json$/.exec(name) ?? [];
  return digits === undefined ? null : Number(digits);
}

/**
 * Returns whether a file has the content of the table. A mirror that was built again starts its commits again, so the number alone does not
 * say it.
 */
export function holds(file: ExportedFile, table: ObservedTable): boolean {
  return (
    file.dataset === table.datasetId &&
    file.table === table.tableName &&
    file.version === table.version &&
    file.commit === table.commitNumber &&
    file.appliedAt === table.appliedAt.toISOString()
  );
}

export function fileOf(table: ObservedTable, file: string, bytes: number): ExportedFile {
  return {
    dataset: table.datasetId,
    table: table.tableName,
    version: table.version,
    commit: table.commitNumber,
    appliedAt: table.appliedAt.toISOString(),
    rows: table.rowCount,
    keyColumns: [...table.keyColumns],
    geometries: table.columns.flatMap(({ type, columnName, crs }) =>
      type === 'geometry' ? [{ column: columnName, crs }] : [],
    ),
    file,
    bytes,
  };
}

/** Returns `dataset=ID/version=V/COMMIT.parquet`; where that name is taken by other content, with `_2` and so on behind the number. */
export function placeOf(table: ObservedTable, isTaken: (file: string) => boolean): string {
  const folder = `dataset=${folderName(table.datasetId)}/version=${table.version}`;
  const number = String(table.commitNumber ?? 0);
  for (let attempt = 1; ; attempt += 1) {
    const file = `${folder}/${attempt === 1 ? number : `${number}_${attempt}`}.parquet`;
    if (!isTaken(file)) return file;
  }
}

/** Returns whether a name is one that `placeOf` gives to a file. */
export function isOurFile(name: string): boolean {
  return /^\d{1,15}(?:_\d{1,6})?\.parquet$/.test(name);
}

/** Percent-escaped, as readers of such folders expect, and without characters that patterns of files have a use for. */
function folderName(datasetId: string): string {
  const escaped = encodeURIComponent(datasetId.toWellFormed()).replaceAll(
    /[*'()!~]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  if (escaped.length <= MAX_ID_BYTES) return escaped;
  const digest = createHash('sha256').update(datasetId).digest('hex').slice(0, DIGEST_DIGITS);
  return `${escaped.slice(0, MAX_ID_BYTES).replace(/%.?$/, '')}~${digest}`;
}
