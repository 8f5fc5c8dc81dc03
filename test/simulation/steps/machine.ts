/** Incidents of the machine: a reader that has the mirror open, full disks, and a pipe that is gone. */

import { catchUp } from '../catch-up.ts';
import { hasMembers } from '../feed-changes.ts';
import { approveAll } from '../operator.ts';
import { BROKEN_PIPES, DISK_USES, type Machine } from '../stage.ts';
import type { Step } from '../step.ts';

const MOST_TIMES = 3;
/** Of a catch-up with something to do. */
const LAST_REQUEST = 8;

export const machineSteps: readonly Step[] = [
  {
    name: 'operator: approves what waits by now',
    weight: 3,
    applies: ({ settings }) => settings.isGated,
    act: async (world) => `${await approveAll(world)} approved`,
  },
  incident('machine: a reader has the mirror open', (machine, times) => machine.occupyMirror(times)),
  {
    name: 'machine: the pipe to the server is removed, or something else lies in its place',
    isFault: true,
    onlyOn: 'real',
    weight: 1.5,
    applies: hasMembers,
    act: async (world) => {
      const { installation, random, feed } = world;
      const published = [world.publish(world.anyMember()), world.publish(world.anyMember())].join(', ');
      const how = random.pick(BROKEN_PIPES);
      const nth = random.integer(0, LAST_REQUEST);
      await installation.parts();
      let requests = 0;
      const meet = (): void => {
        if (requests === nth) installation.breakPipe(how);
        requests += 1;
      };
      meet();
      const end = feed.onRequest(meet);
      await catchUp(world);
      end();
      installation.mendPipe();
      return `${how} at request ${nth}; ${published}`;
    },
  },
  ...DISK_USES.map((use) =>
    incident(`machine: the disk is full, ${use}`, (machine, times) => machine.fillDisk(use, times)),
  ),
];

/** There is something to do, and one catch-up meets the incident. */
function incident(name: string, begin: (machine: Machine, times: number) => void): Step {
  return {
    name,
    isFault: true,
    onlyOn: 'model',
    weight: 1.5,
    applies: hasMembers,
    act: async (world) => {
      const published = world.publish(world.anyMember());
      // The incident comes during work, not while the stores are opened.
      await world.installation.parts();
      const times = world.random.integer(1, MOST_TIMES);
      if (world.stage.machine !== null) begin(world.stage.machine, times);
      await catchUp(world);
      world.stage.machine?.recover();
      return `${times} times; ${published}`;
    },
  };
}
