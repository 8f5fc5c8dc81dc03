/** Addresses: of what kind they are, and which links may lead to them (F21). */

import { describe, expect, it } from 'vitest';
import {
  checkLink,
  createAddressGuard,
  kindOfAddress,
  RefusedLinkError,
  type ResolvedAddress,
} from '../../src/feed/http/addresses.ts';

describe('F21 kindOfAddress', () => {
  it.each([
    ['93.184.215.14', 'public'],
    ['2606:2800:21f:cb07:6820:80da:af6b:8b2c', 'public'],
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['127.1', 'loopback'],
    ['0x7f000001', 'loopback'],
    ['::1', 'loopback'],
    ['[::1]', 'loopback'],
    ['10.0.0.1', 'private'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['172.32.0.1', 'public'],
    ['192.168.1.1', 'private'],
    ['fc00::1', 'private'],
    ['fd12:3456::1', 'private'],
    ['169.254.169.254', 'link-local'],
    ['fe80::1', 'link-local'],
    ['fe80::1%eth0', 'link-local'],
    ['0.0.0.0', 'unspecified'],
    ['0.1.2.3', 'unspecified'],
    ['::', 'unspecified'],
    ['224.0.0.1', 'multicast'],
    ['ff02::1', 'multicast'],
    ['255.255.255.255', 'special'],
    ['168.63.129.16', 'special'],
    ['::ffff:168.63.129.16', 'special'],
    ['168.63.129.17', 'public'],
    ['100.100.100.200', 'special'],
    ['192.0.2.1', 'special'],
    ['198.18.0.1', 'special'],
    ['240.0.0.1', 'special'],
    ['2001:db8::1', 'special'],
    ['fec0::1', 'special'],
    ['64:ff9b:1::1', 'special'],
    ['2001::1', 'special'],
  ])('recognises %s as %s', (address, kind) => expect(kindOfAddress(address)).toBe(kind));

  it.each([
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:169.254.169.254', 'link-local'],
    ['::ffff:93.184.215.14', 'public'],
    ['::ffff:0:10.0.0.1', 'private'],
    ['64:ff9b::10.0.0.1', 'private'],
    ['64:ff9b::93.184.215.14', 'public'],
    ['2002:7f00:1::', 'loopback'],
    ['2002:a9fe:a9fe::1', 'link-local'],
    ['2002:5db8:d70e::1', 'public'],
    ['::127.0.0.1', 'loopback'],
    ['::10.0.0.1', 'private'],
  ])('judges %s by the IPv4 address that it carries: %s', (address, kind) =>
    expect(kindOfAddress(address)).toBe(kind),
  );

  it.each(['localhost', 'feed.example', '', '::g', '1.2.3.4.5'])('finds no address in %j', (text) =>
    expect(kindOfAddress(text)).toBeNull(),
  );
});

describe('F21 the address guard', () => {
  const names = new Map<string, readonly string[]>();
  const resolveName = async (name: string): Promise<readonly ResolvedAddress[]> =>
    (names.get(name) ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

  it.each([
    ['feed.example', '93.184.215.14', '10.0.0.9', false],
    ['feed.internal', '10.1.1.1', '10.0.0.9', true],
    ['feed.internal', '10.1.1.1', '192.168.0.9', true],
    ['feed.internal', '10.1.1.1', '127.0.0.1', false],
    ['feed.internal', '10.1.1.1', '169.254.169.254', false],
    ['feed.local', '127.0.0.1', '[::1]', true],
    ['feed.local', '127.0.0.1', '10.0.0.9', false],
    ['feed.local', '127.0.0.1', '93.184.215.14', true],
  ])('lets a service at %s (%s) link to %s: %s', async (host, address, link, allowed) => {
    names.set(host, [address]);
    const byName = createAddressGuard(host, resolveName).checkLiteral(link);
    const byAddress = createAddressGuard(address, resolveName).checkLiteral(link);
    for (const checked of [byName, byAddress]) {
      if (allowed) await expect(checked).resolves.toBeUndefined();
      else await expect(checked).rejects.toBeInstanceOf(RefusedLinkError);
    }
  });

  it('answers lookups of connections in both forms, and refuses a name by any of its addresses', async () => {
    const { lookup } = createAddressGuard('93.184.215.14', resolveName);
    const lookUp = (name: string, all: boolean) =>
      new Promise((resolve) => lookup(name, { all }, (...answer) => resolve(answer)));
    names.set('files.example', ['93.184.215.15', '2606:2800::1']);
    const both = [
      { address: '93.184.215.15', family: 4 },
      { address: '2606:2800::1', family: 6 },
    ];
    expect(await lookUp('files.example', true)).toEqual([null, both]);
    expect(await lookUp('files.example', false)).toEqual([null, '93.184.215.15', 4]);
    names.set('files.example', ['93.184.215.15', 'fd00::1']);
    expect(await lookUp('files.example', true)).toEqual([expect.any(RefusedLinkError), '']);
  });
});

describe('F21 checkLink', () => {
  const rules = (baseUrl: string, ...allowed: string[]) => ({
    baseUrl: new URL(baseUrl),
    trustedOrigins: new Set([new URL(baseUrl).origin, ...allowed]),
  });
  const isAllowed = (link: string, from: string | null, given: ReturnType<typeof rules>): boolean => {
    try {
      checkLink(new URL(link), from === null ? null : new URL(from), given);
      return true;
    } catch (error) {
      if (error instanceof RefusedLinkError) return false;
      throw error;
    }
  };
  const secure = rules('https://feed.example');
  const local = rules('http://127.0.0.1:8080');
  const opened = rules('https://feed.example', 'http://files.internal');

  it.each([
    ['https://files.example/x', null, secure, true],
    ['https://files.example/x', 'https://feed.example', secure, true],
    ['http://files.example/x', null, secure, false],
    ['http://files.example/x', 'https://files.example', secure, false],
    ['http://files.internal/x', null, opened, true],
    ['http://files.internal/x', 'https://files.example', opened, false],
    ['http://127.0.0.1:9/x', null, local, true],
    ['http://127.0.0.1:9/x', 'http://127.0.0.1:8', local, true],
    ['http://127.0.0.1:9/x', 'https://127.0.0.1:8', local, false],
    ['file:///etc/passwd', null, local, false],
    ['ftp://files.example/x', null, secure, false],
    ['data:,x', null, secure, false],
    ['https://user@files.example/x', null, secure, false],
    ['https://:pass@files.example/x', null, secure, false],
  ])('judges the link %s that came from %s', (link, from, given, allowed) =>
    expect(isAllowed(link, from, given)).toBe(allowed),
  );
});
