/**
 * Settles the names that the interface leaves open, each by itself: what the configuration says, else what the
 * service's description says, else what it said before, else a default.
 */

import type { Log } from '../lib/log.ts';
import type { Contract, ContractName, RememberedContract } from '../model/contract.ts';
import { InterruptedError } from '../model/errors.ts';
import type { Api } from './http/api.ts';
import { throwIfStopped } from './http/stop.ts';
import { MAX_JSON_DEPTH } from './limits.ts';
import { recogniseContract } from './openapi.ts';
import { DESCRIBE_SERVICE } from './operations.ts';

export const DEFAULT_MANIFEST_PATH = '/v1/subscriptions/{subscriptionId}/manifest';
export const DEFAULT_NEWER_THAN_PARAMETER = 'since';

/** The description is only help: it is not waited for as long as an answer that is needed. */
const MAX_ATTEMPTS = 2;

export interface Discovery {
  contract(): Contract;
  /** Reads the description now. Calls made while one is under way share its answer. */
  discover(signal: AbortSignal): Promise<Contract>;
  /** The service refused the parameter: versions are listed without it from now on. */
  leaveOutNewerThanParameter(): void;
}

export interface DiscoveryParts {
  readonly api: Api;
  readonly log: Log;
  readonly configured: RememberedContract;
  readonly remembered: RememberedContract;
  readonly onContractLearned: (remembered: RememberedContract) => void;
}

export function createDiscovery(parts: DiscoveryParts): Discovery {
  const nothing: RememberedContract = { manifestPath: null, newerThanParameter: null };
  let remembered = parts.remembered;
  let contract = settleContract(parts.configured, nothing, remembered);
  let reading: Promise<void> | null = null;

  const read = async (signal: AbortSignal): Promise<void> => {
    const found = await readDescription(parts, signal);
    contract = settleContract(parts.configured, found ?? nothing, remembered);
    if (found === null || (found.manifestPath === null && found.newerThanParameter === null)) return;
    remembered = {
      manifestPath: found.manifestPath ?? remembered.manifestPath,
      newerThanParameter: found.newerThanParameter ?? remembered.newerThanParameter,
    };
    parts.onContractLearned(remembered);
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

/** `configured` > `found` > `remembered` > default, for each name. Pure. */
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

/** A name that the service has not confirmed in this process: a refusal may mean that it is wrong. */
export function isGuess({ source }: ContractName): boolean {
  return source === 'default' || source === 'remembered';
}

/** Null where there is no readable description, whatever the reason. */
async function readDescription(
  { api, log }: DiscoveryParts,
  signal: AbortSignal,
): Promise<RememberedContract | null> {
  try {
    const call = {
      operation: DESCRIBE_SERVICE,
      maxDepth: MAX_JSON_DEPTH,
      maxAttempts: MAX_ATTEMPTS,
      decode: ({ json }: { readonly json: unknown }) => recogniseContract(json),
    };
    return await api.call(call, signal);
  } catch (error) {
    throwIfStopped(signal);
    if (error instanceof InterruptedError || !(error instanceof Error)) throw error;
    log.debug({ why: error.message }, 'The service does not describe itself.');
    return null;
  }
}
