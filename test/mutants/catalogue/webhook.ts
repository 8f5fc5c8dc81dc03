/** The status server and the receiver of webhooks. */

import type { Area } from '../mutant.ts';

const DELIVERY = 'src/daemon/server/webhook.ts';
const ARRIVAL = 'contract/webhook-arrival.test.ts';
const SERVER = 'contract/status-server.test.ts';

export const WEBHOOK: Area = {
  title: 'The status server and webhooks',
  mutants: [
    {
      name: 'an old webhook counts',
      file: DELIVERY,
      text: 'return isFresh && isSigned(',
      instead: 'return isSigned(',
      breaks: ['F44'],
      tests: [ARRIVAL],
    },
    {
      name: 'a webhook of the future counts',
      file: DELIVERY,
      text: 'Math.abs(now.getTime() - claim.sentAt.getTime())',
      instead: '(now.getTime() - claim.sentAt.getTime())',
      breaks: ['F44'],
      tests: [ARRIVAL],
    },
    {
      name: 'a webhook counts whatever its signature',
      file: DELIVERY,
      text: 'return matches.includes(true);',
      instead: 'return matches.length > 0;',
      breaks: ['F44'],
      tests: [ARRIVAL],
    },
    {
      name: 'only the first secret and the first signature are tried',
      file: DELIVERY,
      text: 'return matches.includes(true);',
      instead: 'return matches[0] === true;',
      breaks: ['F44'],
      tests: [ARRIVAL],
    },
    {
      name: 'the id of a webhook is not signed',
      file: DELIVERY,
      text: '.sign(id, sentAt, body)',
      instead: ".sign(id.replace(/-.*/, ''), sentAt, body)",
      breaks: ['F44'],
      tests: [ARRIVAL],
    },
    {
      name: 'any number of signatures is tried',
      file: DELIVERY,
      text: ' || signatures.length > MAX_SIGNATURES || ',
      instead: ' || ',
      breaks: ['everything has a limit'],
      tests: [ARRIVAL],
    },
    {
      name: 'a webhook that comes again wakes the loop again',
      file: 'src/daemon/server/webhook.ts',
      text: 'if (isNew) wake();',
      instead: 'wake();',
      breaks: ['F44', 'P3'],
      tests: [ARRIVAL],
    },
    {
      name: 'a webhook that cannot be remembered wakes nobody',
      file: 'src/daemon/server/webhook.ts',
      text: 'let isNew = true;',
      instead: 'let isNew = false;',
      breaks: ['a webhook is not lost'],
      tests: [ARRIVAL],
    },
    {
      name: 'a thousand webhooks are a thousand polls',
      file: 'src/daemon/server/webhook.ts',
      text: 'if (!this.#isPausing) void this.#wakeAndPause();',
      instead: 'void this.#wakeAndPause();',
      breaks: ['F36'],
      tests: ['unit/waker.test.ts'],
    },
    {
      name: 'who asked within the pause is not heard after it',
      file: 'src/daemon/server/webhook.ts',
      text: 'this.#isAsked = true;\n    if',
      instead: 'this.#isAsked = !this.#isPausing;\n    if',
      breaks: ['a webhook is not lost'],
      tests: ['unit/waker.test.ts'],
    },
    {
      name: 'a web page may ask the server by a name of its own',
      file: 'src/daemon/server/server.ts',
      text: "if (mayBeForged && !isOwnHost(headers.host ?? '')) return MISDIRECTED;",
      instead: '',
      breaks: ['the status server answers who may ask'],
      tests: [SERVER],
    },
    {
      name: 'a host that begins like this machine is this machine',
      file: 'src/daemon/server/server.ts',
      text: 'return isLoopback(hostname);',
      instead: "return hostname.startsWith('localhost') || isLoopback(hostname);",
      breaks: ['the status server answers who may ask'],
      tests: [SERVER],
    },
    {
      name: 'a path for GET alone can be posted to',
      file: 'src/daemon/server/server.ts',
      text: "const READ_METHODS: readonly string[] = ['GET', 'HEAD'];",
      instead: "const READ_METHODS: readonly string[] = ['GET', 'HEAD', 'POST'];",
      breaks: ['the status server only reads'],
      tests: [SERVER],
    },
    {
      name: 'connections to the status server are not limited',
      file: 'src/daemon/server/connections.ts',
      text: 'if (oldest !== undefined && this.#connections.size >= MAX_CONNECTIONS) this.#drop(oldest);',
      instead: '',
      breaks: ['everything has a limit'],
      tests: ['contract/status-server-load.test.ts'],
    },
    {
      name: 'the error of an answer is printed in it',
      file: 'src/daemon/server/server.ts',
      text: 'return FAILED;',
      instead: 'return { ...FAILED, body: reasonOf(error) };',
      breaks: ['P6'],
      tests: [SERVER],
    },
  ],
};
