/**
 * Keeps links out of networks that only this machine can see.
 *
 * Invariant: outside the origins that the configuration names, no connection is made to an address that is not
 * public, unless the service itself is at an address of that same kind. Addresses in links are checked before
 * connecting; names are checked by the lookup of the connection itself, every address of them, so that a name cannot
 * mean one address when it is checked and another when it is used. Behind a proxy the proxy looks names up, and only
 * addresses in links can be checked.
 */

import { lookup } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';
import { shown } from '../shown.ts';
import { type AddressKind, kindOfAddress } from './address.ts';
import { RefusedLinkError } from './refused-link.ts';

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

/** All addresses of a name. */
export type ResolveName = (hostname: string) => Promise<readonly ResolvedAddress[]>;

export const resolveBySystem: ResolveName = (hostname) => lookup(hostname, { all: true });

export interface AddressGuard {
  /** For the host of a link, where it is an address. @throws RefusedLinkError */
  checkLiteral(hostname: string): Promise<void>;
  /** For connections. It fails with a RefusedLinkError where a name has an address that is not allowed. */
  readonly lookup: LookupFunction;
}

/** `serviceHost` is the host of the base URL: an address, or a name. */
export function createAddressGuard(serviceHost: string, resolveName: ResolveName): AddressGuard {
  const check = async (hostname: string, addresses: readonly string[]): Promise<void> => {
    const kinds = addresses.map((address) => kindOfAddress(address) ?? 'special');
    const closed = kinds.filter((kind) => kind !== 'public');
    if (closed.length === 0) return;
    const ownKinds = await kindsOf(serviceHost, resolveName);
    const refused = closed.find((kind) => !ownKinds.includes(kind));
    if (refused !== undefined) throw refusedAddress(hostname, refused);
  };
  return {
    async checkLiteral(hostname) {
      if (kindOfAddress(hostname) !== null) await check(hostname, [hostname]);
    },
    lookup(hostname, options, callback) {
      const allowed = async (): Promise<ResolvedAddress[]> => {
        const addresses = await resolveName(hostname);
        await check(
          hostname,
          addresses.map(({ address }) => address),
        );
        return [...addresses];
      };
      allowed().then(
        (addresses) => {
          const [first] = addresses;
          if (options.all === true) callback(null, addresses);
          else callback(null, first?.address ?? '', first?.family ?? 0);
        },
        (error: NodeJS.ErrnoException) => callback(error, ''),
      );
    },
  };
}

async function kindsOf(host: string, resolveName: ResolveName): Promise<readonly AddressKind[]> {
  const literal = kindOfAddress(host);
  if (literal !== null) return [literal];
  const addresses = await resolveName(host);
  return addresses.map(({ address }) => kindOfAddress(address) ?? 'special');
}

const KIND_IN_WORDS: Readonly<Record<AddressKind, string>> = {
  public: 'a public address',
  loopback: 'this machine itself',
  private: 'an address of a private network',
  'link-local': 'an address of the local link',
  unspecified: 'an address that names no machine',
  multicast: 'an address of many machines',
  special: 'an address that is not of the open internet',
};

function refusedAddress(hostname: string, kind: AddressKind): RefusedLinkError {
  return RefusedLinkError.because(
    shown(hostname),
    `which is ${KIND_IN_WORDS[kind]}; such links are not followed`,
    'Where the service is meant to keep its files there, name the origin of the link in downloads.allowedOrigins.',
  );
}
