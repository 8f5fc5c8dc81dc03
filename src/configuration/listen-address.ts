/** Where the status server listens: a host and a port, or `off`. */

import ipaddr from 'ipaddr.js';
import type { ListenAddress } from './configuration.ts';
import { type Kind, type Reading, scalar } from './kinds.ts';
import { quoted } from './problems.ts';

const OFF = 'off';
const LARGEST_PORT = 65_535;

/** `127.0.0.1:9464`, `[::1]:9464`, `localhost:0`. */
const ADDRESS = /^(?:\[([\da-f:.]+)\]|([a-z\d](?:[a-z\d.-]{0,251}[a-z\d])?)):(\d{1,5})$/i;

/** Null: it does not listen. Port 0 stands for any that is free. */
export const listenAddress: Kind<ListenAddress | null> = scalar({
  placeholder: 'host:port',
  advice: 'an address such as 127.0.0.1:9464, or off',
  readText: (text): Reading<ListenAddress | null> => {
    if (text === OFF) return { value: null };
    const [, address, name, digits] = ADDRESS.exec(text) ?? [];
    const host = address ?? name;
    const isHost = host !== undefined && (address === undefined || ipaddr.IPv6.isValid(address));
    if (!isHost || Number(digits) > LARGEST_PORT) {
      return {
        trouble: `is ${quoted(text)}, which is not a host and a port; write for example 127.0.0.1:9464, or off`,
      };
    }
    return { value: { host, port: Number(digits) } };
  },
});
