/** What can be seen of the way to the service without asking it for anything: for `doctor`. */

import type { Clock } from '../lib/clock.ts';
import { systemCode } from '../lib/system-code.ts';
import { kindOfAddress } from './download/address.ts';
import { type ResolveName, resolveBySystem } from './download/address-guard.ts';
import { type Probed, type ProbeOptions, probeConnection } from './http/connection-probe.ts';

export interface ConnectionCheck extends Probed {
  /** Of the base URL, with its port where that is not the usual one. */
  readonly host: string;
  /** Null where there is nothing to look up, because the host is an address. */
  readonly lookUp: LookUp | null;
}

export interface LookUp {
  /** The proxy's where one is used: it looks up the service's itself. */
  readonly hostname: string;
  /** None where the look-up failed. */
  readonly addresses: readonly string[];
  readonly tookMs: number;
  /** The code of the failure (`ENOTFOUND`); null where it succeeded. */
  readonly failure: string | null;
}

export interface ConnectionCheckOptions extends ProbeOptions {
  /** How names become addresses; the system's way by default. */
  readonly resolveName?: ResolveName;
}

/** @throws InterruptedError */
export async function checkConnection(
  options: ConnectionCheckOptions,
  signal: AbortSignal,
): Promise<ConnectionCheck> {
  const { host, hostname } = new URL(options.baseUrl);
  // First: only the connection itself shows whether it goes through a proxy, whose name is then the one to look up.
  const probed = await probeConnection(options, signal);
  const name = probed.proxyHost === null ? hostname : new URL(`http://${probed.proxyHost}`).hostname;
  return {
    host,
    ...probed,
    lookUp: await lookUp(name, options.resolveName ?? resolveBySystem, options.clock),
  };
}

async function lookUp(hostname: string, resolveName: ResolveName, clock: Clock): Promise<LookUp | null> {
  if (kindOfAddress(hostname) !== null) return null;
  const startedMs = clock.monotonicMs();
  const since = (): number => clock.monotonicMs() - startedMs;
  try {
    const addresses = await resolveName(hostname);
    return {
      hostname,
      addresses: [...new Set(addresses.map(({ address }) => address))],
      tookMs: since(),
      failure: null,
    };
  } catch (error) {
    return { hostname, addresses: [], tookMs: since(), failure: systemCode(error) ?? String(error) };
  }
}
