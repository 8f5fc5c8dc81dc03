/** What kind of place an IP address is. Pure; an address that carries another inside it counts as that other. */

import ipaddr from 'ipaddr.js';

/** `special`: reserved, shared or otherwise no address of the open internet. */
export type AddressKind =
  | 'public'
  | 'loopback'
  | 'private'
  | 'link-local'
  | 'unspecified'
  | 'multicast'
  | 'special';

/** The kind of an address in text; null where the text is no address. Takes IPv6 with or without brackets. */
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
  switch (address.range()) {
    case 'unicast':
      return 'public';
    case 'loopback':
      return 'loopback';
    case 'private':
    case 'uniqueLocal':
      return 'private';
    case 'linkLocal':
      return 'link-local';
    case 'unspecified':
      return 'unspecified';
    case 'multicast':
      return 'multicast';
    default:
      return 'special';
  }
}

/** Where 32 bits of IPv4 stand in an IPv6 address: its byte, or null. */
const EMBEDDINGS: readonly { readonly range: [ipaddr.IPv6, number]; readonly atByte: number }[] = [
  { range: cidr('::ffff:0:0/96'), atByte: 12 }, // mapped
  { range: cidr('::ffff:0:0:0/96'), atByte: 12 }, // translated (SIIT)
  { range: cidr('64:ff9b::/96'), atByte: 12 }, // NAT64
  { range: cidr('2002::/16'), atByte: 2 }, // 6to4
  { range: cidr('::/96'), atByte: 12 }, // compatible, given up long ago
];

function embeddedAddress(address: ipaddr.IPv6): ipaddr.IPv4 | null {
  const range = address.range();
  // Both lie in the range of the compatible addresses, and are no such.
  if (range === 'loopback' || range === 'unspecified') return null;
  const embedding = EMBEDDINGS.find((candidate) => address.match(candidate.range));
  if (embedding === undefined) return null;
  return new ipaddr.IPv4(address.toByteArray().slice(embedding.atByte, embedding.atByte + 4));
}

function cidr(text: string): [ipaddr.IPv6, number] {
  return ipaddr.IPv6.parseCIDR(text);
}
