/**
 * Recognises, in the service's description of itself, the names that the interface leaves open. Pure; every shape of
 * document is accepted, and what is not recognised is null.
 */

import type { RememberedContract } from '../model/contract.ts';

/** References that lead to references. */
const MAX_REFERENCES = 8;
/** Parameters of every list that are no filter. */
const PAGING_PARAMETERS = ['limit', 'cursor'];
const PATH_PARAMETER = /\{[^{}/]+\}/g;
/** As in the configuration; what goes beyond it could not stand in a URL, or not in every one. */
const SAFE_PARAMETER = /^[\w.[\]$-]{1,64}$/;
/** One slash in front, so that it stays on the service's origin; no query, no white space. */
const SAFE_PATH = /^\/(?![/\\])[\w.~!$&'()*+,;=:@%/{}-]*$/;

/** Null where the document is no description at all. */
export function recogniseContract(document: unknown): RememberedContract | null {
  const paths = fieldsOf(fieldsOf(document)?.get('paths'));
  if (paths === null) return null;
  return {
    manifestPath: recogniseManifestPath(paths),
    newerThanParameter: recogniseNewerThan(paths, document),
  };
}

type Fields = ReadonlyMap<string, unknown>;

/**
 * The GET operation whose path ends in `/manifest`, below a subscription before below a dataset. Its one parameter
 * may carry any name: what it stands for is told by its place.
 */
function recogniseManifestPath(paths: Fields): string | null {
  const candidates = [...paths]
    .filter(([path, item]) => path.endsWith('/manifest') && fieldsOf(item)?.has('get') === true)
    .map(([path]) => path)
    .filter((path) => SAFE_PATH.test(path) && path.match(PATH_PARAMETER)?.length === 1);
  return (
    templateBelow('/v1/subscriptions/', '{subscriptionId}', candidates) ??
    templateBelow('/v1/datasets/', '{datasetId}', candidates)
  );
}

function templateBelow(parent: string, place: string, paths: readonly string[]): string | null {
  const path = paths.find((candidate) => candidate.startsWith(`${parent}{`));
  return path?.replace(PATH_PARAMETER, place) ?? null;
}

/** The query parameter of the versions list that is an integer from 0 and does not turn pages. */
function recogniseNewerThan(paths: Fields, document: unknown): string | null {
  const item = [...paths].find(([path]) => /^\/v1\/datasets\/\{[^{}/]+\}\/versions$/.test(path))?.[1];
  const operation = fieldsOf(fieldsOf(item)?.get('get'));
  if (operation === null) return null;
  const parameters = [operation.get('parameters'), fieldsOf(item)?.get('parameters')].flatMap(listOf);
  for (const unresolved of parameters) {
    const parameter = resolve(unresolved, document);
    const name = parameter?.get('name');
    if (parameter?.get('in') !== 'query' || typeof name !== 'string' || !SAFE_PARAMETER.test(name)) continue;
    if (PAGING_PARAMETERS.includes(name)) continue;
    const schema = resolve(parameter.get('schema'), document);
    if (isInteger(schema?.get('type')) && schema?.get('minimum') === 0) return name;
  }
  return null;
}

/** OpenAPI 3.1 writes an integer that may be null as a list of types. */
function isInteger(type: unknown): boolean {
  return type === 'integer' || listOf(type).includes('integer');
}

/** Follows `$ref` within the document; null where it leads nowhere. */
function resolve(value: unknown, document: unknown): Fields | null {
  let fields = fieldsOf(value);
  for (let references = 0; references < MAX_REFERENCES; references += 1) {
    const reference = fields?.get('$ref');
    if (typeof reference !== 'string') return fields;
    if (!reference.startsWith('#/')) return null;
    fields = fieldsOf(valueAt(reference.slice(2).split('/'), document));
  }
  return null;
}

/** The value that a JSON pointer names. */
function valueAt(steps: readonly string[], document: unknown): unknown {
  return steps.reduce<unknown>(
    (value, step) => fieldsOf(value)?.get(step.replaceAll('~1', '/').replaceAll('~0', '~')),
    document,
  );
}

/** The fields of an object as a map, in which no name reaches a prototype; null for everything else. */
function fieldsOf(value: unknown): Fields | null {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? new Map(Object.entries(value)) : null;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
