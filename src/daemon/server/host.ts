/**
 * Whom a request on a loopback address may be meant for. Pure.
 *
 * A web page can let its own name point to 127.0.0.1 and have the browser of somebody on this machine ask there (DNS
 * rebinding). Such a request carries the page's name as its host, which is never a name of this machine.
 */

import ipaddr from 'ipaddr.js';

export function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}

/** Whether the value of a Host header names this machine itself: `localhost:9464`, `127.0.0.1`, `[::1]:9464`. */
export function isOwnHost(host: string): boolean {
  const name = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/.exec(host);
  const hostname = (name?.[1] ?? name?.[2] ?? '').toLowerCase();
  return hostname === 'localhost' || isLoopback(hostname);
}
