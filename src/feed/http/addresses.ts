/**
 * Keeps links out of networks that only this machine can see.
 *
 * Invariant: outside the configured origins, no connection is made to a non-public address, unless the service itself is at an
 * address of the same kind. Addresses in links are checked before connecting. Names are checked by the connection's own lookup,
 * with all their addresses, so that a name cannot change its address between check and use. Behind a proxy, the proxy looks up
 * names, and only addresses in links can be checked.
 */

import { lookup } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { shown } from '../../lib/text.ts';
import { DataError } from '../../model/errors.ts';

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

/** Returns all addresses of a name. */
export type ResolveName = (hostname: string) => Promise<readonly ResolvedAddress[]>;

export const resolveBySystem: ResolveName = (hostname) => lookup(hostname, { all: true });

export interface AddressGuard {
  /** Checks the host of a link if it is an address. @throws RefusedLinkError */
  checkLiteral(hostname: string): Promise<void>;
  /** The lookup for connections. Fails with a RefusedLinkError when a name has an address that is not allowed. */
  readonly lookup: LookupFunction;
}

/** Creates the guard of addresses. `serviceHost` is the host of the base URL: an address or a name. */
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

/** `special`: reserved, shared, or otherwise not an address of the open internet. */
type AddressKind = 'public' | 'loopback' | 'private' | 'link-local' | 'unspecified' | 'multicast' | 'special';

/** Returns the kind of an address in text; null for any other text. Accepts IPv6 with or without brackets. */
export function kindOfAddress(text: string): AddressKind | null {
  const address = text.replace(/^\[|\]$/g, '').replace(/%.*$/, '');
  if (!ipaddr.isValid(address)) return null;
  return kindOf(ipaddr.parse(address));
}

function kindOf(address: ipaddr.IPv4 | ipaddr.IPv6): AddressKind {
  if (address instanceof ipaddr.IPv6) {
    const embedded = embeddedAddress(address);
    if (embedded !== null) return kindOf(embedded);
  }
  if (CLOUD_INTERNAL.has(address.toString())) return 'special';
  return KINDS[address.range()] ?? 'special';
}

/** Addresses of public ranges that a cloud answers from inside each of its machines: Azure's agent. */
const CLOUD_INTERNAL = new Set(['168.63.129.16']);

/** By the names of ranges in ipaddr.js. */
const KINDS: Readonly<Partial<Record<string, AddressKind>>> = {
  unicast: 'public',
  loopback: 'loopback',
  private: 'private',
  uniqueLocal: 'private',
  linkLocal: 'link-local',
  unspecified: 'unspecified',
  multicast: 'multicast',
};

/** The ranges of IPv6 that contain an IPv4 address, and the byte at which it starts. */
const EMBEDDINGS: readonly { readonly range: [ipaddr.IPv6, number]; readonly atByte: number }[] = [
  { range: cidr('::ffff:0:0/96'), atByte: 12 }, // mapped
  { range: cidr('::ffff:0:0:0/96'), atByte: 12 }, // translated (SIIT)
  { range: cidr('64:ff9b::/96'), atByte: 12 }, // NAT64
  { range: cidr('2002::/16'), atByte: 2 }, // 6to4
  { range: cidr('::/96'), atByte: 12 }, // compatible, given up long ago
];

function embeddedAddress(address: ipaddr.IPv6): ipaddr.IPv4 | null {
  const range = address.range();
  // Both lie in the range of the compatible addresses without being such.
  if (range === 'loopback' || range === 'unspecified') return null;
  const embedding = EMBEDDINGS.find((candidate) => address.match(candidate.range));
  if (embedding === undefined) return null;
  return new ipaddr.IPv4(address.toByteArray().slice(embedding.atByte, embedding.atByte + 4));
}

function cidr(text: string): [ipaddr.IPv6, number] {
  return ipaddr.IPv6.parseCIDR(text);
}

export interface LinkRules {
  readonly baseUrl: URL;
  /** The origin of the base URL and the configured origins. */
  readonly trustedOrigins: ReadonlySet<string>;
}

/** Checks a link. `from` is the address that redirected here; null for a link of the manifest. @throws RefusedLinkError */
export function checkLink(link: URL, from: URL | null, rules: LinkRules): void {
  const place = shown(link.host === '' ? link.protocol : `${link.protocol}//${link.host}`);
  if (link.protocol !== 'https:' && link.protocol !== 'http:') {
    throw RefusedLinkError.because(place, 'which is no place on the web', INFORM_THE_SERVICE);
  }
  if (link.username !== '' || link.password !== '') {
    throw RefusedLinkError.because(place, 'and carries a user name or password', INFORM_THE_SERVICE);
  }
  if (link.protocol === 'https:') return;
  if (from?.protocol === 'https:') {
    throw RefusedLinkError.because(place, 'by a redirect from https to http', INFORM_THE_SERVICE);
  }
  if (rules.baseUrl.protocol === 'https:' && !rules.trustedOrigins.has(link.origin)) {
    throw RefusedLinkError.because(
      place,
      'which is not encrypted',
      'Where the service is meant to keep its files there, name the origin in downloads.allowedOrigins.',
    );
  }
}

const INFORM_THE_SERVICE = 'No setting allows this. Report it to the service.';

export class RefusedLinkError extends DataError {
  /** `place` names the link's target without path and query; `reason` is the rest of the sentence. */
  static because(place: string, reason: string, hint: string): RefusedLinkError {
    return new RefusedLinkError(`A link to a file leads to ${place}, ${reason}.`, { hint });
  }
}
