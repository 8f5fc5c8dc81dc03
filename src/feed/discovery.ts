/**
 * Settles each name that the interface leaves open: from the configuration, else the service's description, else an earlier
 * description, else a default.
 */

import type { Log } from '../lib/log.ts';
import type { Contract, ContractName, RememberedContract } from '../model/contract.ts';
import { InterruptedError } from '../model/errors.ts';
import type { Api } from './http/api.ts';
import { throwIfStopped } from './http/failures.ts';
import type { FeedOptions } from './http/options.ts';
import { DESCRIBE_SERVICE } from './operations.ts';

const DEFAULT_MANIFEST_PATH = '/v1/subscriptions/{subscriptionId}/manifest';
const DEFAULT_NEWER_THAN_PARAMETER = 'since';

export interface Discovery {
  contract(): Contract;
  /** Reads the description now. Concurrent calls share one request. */
  discover(signal: AbortSignal): Promise<Contract>;
  /** Versions are listed without the parameter from now on, because the service refused it. */
  leaveOutNewerThanParameter(): void;
}

export function createDiscovery(api: Api, options: FeedOptions): Discovery {
  const { contract: configured, onContractDiscovered } = options;
  const nothing: RememberedContract = { manifestPath: null, newerThanParameter: null };
  let { remembered } = options;
  let contract = settleContract(configured, nothing, remembered);
  let reading: Promise<void> | null = null;

  const read = async (signal: AbortSignal): Promise<void> => {
    const found = await readDescription(api, options.log, signal);
    contract = settleContract(configured, found ?? nothing, remembered);
    if (found === null || (found.manifestPath === null && found.newerThanParameter === null)) return;
    remembered = {
      manifestPath: found.manifestPath ?? remembered.manifestPath,
      newerThanParameter: found.newerThanParameter ?? remembered.newerThanParameter,
    };
    onContractDiscovered(remembered);
  };

  return {
    contract: () => contract,
    async discover(signal) {
      reading ??= read(signal).finally(() => {
        reading = null;
      });
      await reading;
      return contract;
    },
    leaveOutNewerThanParameter() {
      contract = { ...contract, newerThanParameter: null };
    },
  };
}

/** Settles each name of the contract: `configured` > `found` > `remembered` > default. Pure. */
export function settleContract(
  configured: RememberedContract,
  found: RememberedContract,
  remembered: RememberedContract,
): Contract {
  const settle = (name: keyof RememberedContract, byDefault: string): ContractName => {
    if (configured[name] !== null) return { value: configured[name], source: 'config' };
    if (found[name] !== null) return { value: found[name], source: 'openapi' };
    if (remembered[name] !== null) return { value: remembered[name], source: 'remembered' };
    return { value: byDefault, source: 'default' };
  };
  return {
    manifestPath: settle('manifestPath', DEFAULT_MANIFEST_PATH),
    newerThanParameter: settle('newerThanParameter', DEFAULT_NEWER_THAN_PARAMETER),
  };
}

/** Returns whether the name is one that the service has not confirmed in this process. A refusal may then mean that the name is wrong. */
export function isGuess({ source }: ContractName): boolean {
  return source === 'default' || source === 'remembered';
}

/** Returns null when there is no readable description, for whatever reason. */
async function readDescription(api: Api, log: Log, signal: AbortSignal): Promise<RememberedContract | null> {
  try {
    const { value } = await api.call({ ...DESCRIBE_SERVICE, decode: recogniseContract }, signal);
    return value;
  } catch (error) {
    throwIfStopped(signal);
    if (error instanceof InterruptedError || !(error instanceof Error)) throw error;
    log.debug({ why: error.message }, 'The service does not describe itself.');
    return null;
  }
}

/** The most references that are followed in a row. */
const MAX_REFERENCES = 8;
/** Parameters that page through a list and filter nothing. */
const PAGING_PARAMETERS = ['limit', 'cursor'];
const PATH_PARAMETER = /\{[^{}/]+\}/g;
/** The same rule as in the configuration. Other characters are not safe in every URL. */
const SAFE_PARAMETER = /^[\w.[\]$-]{1,64}$/;
/** One leading slash keeps the path on the service's origin; queries and white space are excluded. */
const SAFE_PATH = /^\/(?![/\\])[\w.~!$&'()*+,;=:@%/{}-]*$/;

/** Returns null when the document is not a description. */
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
 * Finds the GET operation whose path ends in `/manifest`, preferring a path below a subscription to one below a dataset. Its
 * single parameter may have any name, because its position gives its meaning.
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

/** Finds the query parameter of the versions list that is an integer from 0 and does not page. */
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

/** OpenAPI 3.1 writes a nullable integer as a list of types. */
function isInteger(type: unknown): boolean {
  return type === 'integer' || listOf(type).includes('integer');
}

/** Follows `$ref` within the document; returns null for a dangling reference. */
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

/** Returns the value at a JSON pointer. */
function valueAt(steps: readonly string[], document: unknown): unknown {
  return steps.reduce<unknown>(
    (value, step) => fieldsOf(value)?.get(step.replaceAll('~1', '/').replaceAll('~0', '~')),
    document,
  );
}

/** Returns the fields of an object as a map, so that no name reaches a prototype; null for any other value. */
function fieldsOf(value: unknown): Fields | null {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? new Map(Object.entries(value)) : null;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
