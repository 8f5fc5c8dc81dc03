/** What clients that mean no good do to a status server, each until the process that makes it ends. */

import { connect, type Socket } from 'node:net';

export const ATTACKS = ['pipelined', 'queued', 'slow senders', 'slow readers'] as const;
export type Attack = (typeof ATTACKS)[number];

const STATUS = 'GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n';
const PIPELINED = 1_200;
/** As many as may wait on one connection. */
const QUEUED = 8;
const ANSWERED = /HTTP\/1\.1 200 /g;
const CONNECTIONS: Readonly<Record<Attack, number>> = {
  pipelined: 1,
  queued: 63,
  'slow senders': 64,
  'slow readers': 60,
};
/** A byte of a header each time. */
const SLOW_EVERY_MS = 500;

/** Attacks the server at `url` with as many connections as the attack has. One that is closed is opened again. */
export function attack(kind: Attack, url: string): void {
  const { hostname, port } = new URL(url);
  const begin = (): void => {
    const socket = connect(Number(port), hostname);
    const timer = use(kind, socket);
    socket.on('error', () => {});
    socket.on('close', () => {
      clearInterval(timer);
      setImmediate(begin);
    });
  };
  for (let number = 0; number < CONNECTIONS[kind]; number += 1) begin();
}

function use(kind: Attack, socket: Socket): NodeJS.Timeout | undefined {
  switch (kind) {
    case 'pipelined':
      socket.write(STATUS.repeat(PIPELINED));
      socket.resume();
      return undefined;
    case 'queued': {
      let waiting = 0;
      const ask = (): void => {
        socket.write(STATUS.repeat(QUEUED - waiting));
        waiting = QUEUED;
      };
      socket.on('data', (bytes) => {
        waiting -= bytes.toString('latin1').match(ANSWERED)?.length ?? 0;
        if (waiting === 0) ask();
      });
      ask();
      return undefined;
    }
    case 'slow senders':
      socket.write('GET /livez HTTP/1.1\r\nX-Slow: ');
      socket.resume();
      return setInterval(() => socket.write('x'), SLOW_EVERY_MS);
    case 'slow readers':
      socket.write(STATUS);
      socket.pause();
      return undefined;
  }
}
